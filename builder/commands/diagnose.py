"""``sparkyard diagnose``: a server's log against the known failures of the field."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from builder import console
from builder.diagnose import Diagnosis, diagnose, load_issues, versions_in
from builder.errors import UsageError
from builder.text import visible

END_BYTES = 8_000_000  # of a log's beginning and of its end: a boot with all its tracebacks is 1 MB
CHUNK_BYTES = 1 << 20
LINE_LIMIT = 10_000  # signs; what fails is told at a line's beginning


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("diagnose", help="name the failure that a log shows",
                                   description=__doc__)
    parser.add_argument("log", metavar="LOG", help="the log of a vLLM server (- for stdin)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print each known issue that the log shows; 1 when one is claimed, 0 when none is."""
    lines = [line[:LINE_LIMIT] for line in _read(options.log).splitlines()]
    found = diagnose(lines, load_issues(options.matrix.absolute().parent))
    if options.json:
        console.document({"lines": len(lines), "versions": versions_in(lines),
                          "issues": [_entry(item) for item in found]})
    else:
        for diagnosis in found:
            console.out(visible(str(diagnosis)))
        if not found:
            console.out(f"no known failure in {len(lines)} lines")
    return 1 if any(not item.spared for item in found) else 0


def _read(log: str) -> str:
    """Return the log; of a very long one its two ends, where a boot and a death are told."""
    try:
        with (nullcontext(sys.stdin.buffer) if log == "-" else Path(log).open("rb")) as stream:
            begin, skipped = stream.read(END_BYTES), 0
            end = deque[bytes](maxlen=END_BYTES // CHUNK_BYTES + 1)
            for chunk in iter(partial(stream.read, CHUNK_BYTES), b""):
                skipped += len(end[0]) if len(end) == end.maxlen else 0
                end.append(chunk)
    except OSError as error:
        raise UsageError(f"the log cannot be read: {error.strerror}", where=log,
                         next_step="name a file, or - for stdin") from error
    if skipped:
        console.warn(f"{console.size(skipped)} in the middle of the log were not looked at")
    return b"".join([begin, b"\n" if skipped else b"", *end]).decode("utf-8", errors="replace")


def _entry(item: Diagnosis) -> dict[str, object]:
    return {"code": item.issue.code, "seen": item.line, "claimed": not item.spared,
            "not_claimed_because": item.spared, "explanation": item.issue.explanation,
            "remedy": item.issue.remedy, "until": item.issue.until, "link": item.issue.link}
