"""``sparkyard report``: records of smoke runs for people, for CI and for a browser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from builder import console
from builder.errors import UsageError
from builder.files import write_text
from builder.record.find import find
from builder.record.models import Record, records_folder
from builder.report import terminal as report
from builder.report.html import html
from builder.report.markdown import markdown
from builder.workspace import cache_folder

FORMATS: dict[str, Callable[[Sequence[Record]], str]] = {
    "terminal": report.text, "junit": report.junit, "markdown": markdown, "html": html}
BY_SUFFIX = {".html": "html", ".htm": "html", ".md": "markdown", ".xml": "junit"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("report", help="show the records of smoke runs",
                                   description=__doc__)
    parser.add_argument("records", metavar="RECORD", nargs="*",
                        help="a file, a record's id or its beginning, or a cell for its newest "
                             "(default: the newest of all)")
    parser.add_argument("--format", choices=tuple(FORMATS),
                        help="default: what the ending of --output says, else terminal")
    parser.add_argument("--output", type=Path, metavar="FILE",
                        help="write here, not to standard output (-)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Show the records; 0 whatever their verdict, which the run itself has told."""
    form = options.format or BY_SUFFIX.get(options.output.suffix if options.output else "",
                                           "terminal")
    records = find(records_folder(cache_folder(make=False)), options.records)
    standard = options.output is None or str(options.output) == "-"
    if standard and form == "terminal":
        report.show_all(records)
    elif standard:
        console.out(FORMATS[form](records))
    else:
        _write(options.output, FORMATS[form](records))
    return 0


def _write(path: Path, page: str) -> None:
    try:
        write_text(path, page)
    except OSError as error:
        raise UsageError(f"the report cannot be written: {error.strerror}", where=str(path),
                         next_step="name another file: --output FILE") from error
    console.info(f"report: {path}")
