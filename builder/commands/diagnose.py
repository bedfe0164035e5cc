"""``sparkyard diagnose``: name the known failure that a server's log shows, and what helps."""

from __future__ import annotations

import argparse

from builder import console
from builder.commands.option_types import refuse_beside, user_path_text
from builder.diagnosis.catalogue import load
from builder.diagnosis.log_file import NEXT_STEP, LogText, read_log
from builder.diagnosis.matching import diagnose
from builder.diagnosis.models import Diagnosis
from builder.diagnosis.names import all_names, explain
from builder.diagnosis.versions import versions_in
from builder.errors import UsageError
from builder.text import redact, visible

#: What an issue's ``until`` and a reader's questions are mostly about, if the log names it.
SHOWN = ("vllm", "torch", "triton", "transformers", "flashinfer-python")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "diagnose", help="name the known failure that a server's log shows",
        description="Compare the log of a vLLM server with the catalogue of known failures. "
                    "Exit code 1 when one is named, 0 when none is.")
    parser.add_argument("log", metavar="LOG", nargs="?", type=user_path_text,
                        help="the log of a vLLM server (- for standard input)")
    parser.add_argument("--explain", metavar="NAME",
                        help="say what the name of a failure means, instead of reading a log")
    parser.add_argument("--list", action="store_true",
                        help="list the names of all known failures, instead of reading a log")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print each known issue that the log shows; 1 when one is claimed, 0 when none is."""
    if options.explain is not None:
        refuse_beside(options, "--explain", log="LOG", list="--list", json="--json")
        console.out("\n".join(map(str, explain(options.explain))))
        return 0
    if options.list:
        refuse_beside(options, "--list", log="LOG", json="--json")
        console.table("", ["name", "alias", "seen"], [
            [entry.name, ", ".join(entry.aliases), entry.seen_by] for entry in all_names()])
        return 0
    if options.log is None:
        raise UsageError("no log was named", where="command line", next_step=NEXT_STEP)
    return _diagnose(options.log, as_json=options.json)


def _diagnose(name: str, *, as_json: bool) -> int:
    log = read_log(name)
    shown = diagnose(log.lines, load())
    if not shown and not log.looks_like_a_log:
        raise UsageError(f"this does not look like a log: none of its {len(log.lines)} lines does",
                         where=name, next_step=NEXT_STEP)
    _warn(log)
    versions = versions_in(log.lines)
    if as_json:
        console.document({"lines": len(log.lines), "versions": versions,
                          "issues": [_entry(item) for item in shown]})
    else:
        console.out("\n".join(redact(visible(str(item))) for item in shown)
                    or f"no known failure in {len(log.lines)} lines")
        named = ", ".join(f"{name} {versions[name]}" for name in SHOWN if name in versions)
        if named:
            console.out(f"versions in the log: {redact(visible(named))}")
    return 1 if any(item.claimed for item in shown) else 0


def _warn(log: LogText) -> None:
    if log.skipped:
        console.warn(f"{console.size(log.skipped)} in the middle of the log were not read")
    if log.cut_off:
        console.warn(f"the end of the log was not read: {log.cut_off}")


def _entry(item: Diagnosis) -> dict[str, object]:
    issue = item.issue
    return {"name": issue.name, "alias": issue.alias, "seen": redact(item.line),
            "claimed": item.claimed, "not_claimed_because": item.ruled_out,
            "confirmed": issue.confirmed, "cause": issue.cause, "shown_by": issue.shown_by,
            "or_else": [str(cause) for cause in issue.or_else], "remedy": issue.remedy,
            "until": issue.until, "links": list(issue.links)}
