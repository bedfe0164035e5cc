"""``sparkyard diagnose``: a server's log against the known failures of the field."""

from __future__ import annotations

import argparse
from pathlib import Path

from builder import console
from builder.diagnose import diagnose, load_issues
from builder.errors import UsageError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("diagnose", help="name the failure that a log shows",
                                   description=__doc__)
    parser.add_argument("log", type=Path, metavar="LOG", help="the log of a vLLM server")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print each known issue that the log shows; 1 when there is any, 0 when there is none."""
    try:
        lines = options.log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UsageError(f"the log cannot be read: {error.strerror}", where=str(options.log),
                         next_step="name a file") from error
    found = diagnose(lines, load_issues(options.matrix.absolute().parent))
    for diagnosis in found:
        console.out(str(diagnosis))
    if not found:
        console.out(f"no known failure in {len(lines)} lines")
    return 1 if found else 0
