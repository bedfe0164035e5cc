"""``sparkyard report``: show records of smoke tests and benchmarks: terminal, CI, or browser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from builder import console
from builder.commands.option_types import file_or_name, user_path
from builder.errors import UsageError
from builder.files import check_outputs, write_text
from builder.record.find import as_ended, record_path
from builder.record.models import Record, records_folder
from builder.record.reader import newest_record, read_record
from builder.report import terminal as report
from builder.report.html import html
from builder.report.markdown import markdown
from builder.workspace import cache_folder

FORMATS: dict[str, Callable[[Sequence[Record]], str]] = {
    "terminal": report.text, "junit": report.junit, "markdown": markdown, "html": html}
BY_SUFFIX = {".html": "html", ".htm": "html", ".md": "markdown", ".xml": "junit"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "report", help="show records of smoke tests and benchmarks",
        description="Show records of smoke tests and benchmarks: at the terminal, as JUnit or "
                    "Markdown, or as one HTML page.")
    parser.add_argument("records", metavar="RECORD", nargs="*", type=file_or_name,
                        help="a file, the id of a record or its beginning, or a cell for its "
                             "newest record (default: the newest that can be read)")
    parser.add_argument("--format", choices=tuple(FORMATS),
                        help="default: by the ending of --output, otherwise terminal")
    parser.add_argument("--output", type=user_path, metavar="FILE",
                        help="write to this file (default: standard output, -)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Show the records; 0 whatever their verdict, which was the exit code of the run itself."""
    form = options.format or BY_SUFFIX.get(options.output.suffix if options.output else "",
                                           "terminal")
    cache = cache_folder(make=False)
    folder = records_folder(cache)
    paths = [record_path(folder, name) for name in options.records]
    check_outputs(options.output, inputs=[options.matrix, *paths], protected=cache)
    found = [read_record(path) for path in paths] or [newest_record(folder)[1]]
    records = [as_ended(record) for record in found]
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
