"""Which records and logs may go: old ones, but none that a tag, a report or a baseline may need.

A tag is moved when the last run of each level on its image was good (``builder.publish``), so the
last record that counts of each image and level stays, however old. So do the newest records of each
cell, which reports and benchmarks compare with.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from builder.errors import UsageError
from builder.record.models import Record, place_of, records_folder
from builder.record.reader import read_record
from builder.store.prune import DAY_S, Removable, named_files

KEEP_PER_CELL = 20
KEEP_REPORTS = 20  # of internal errors
_RECORD = re.compile(r"\d{8}T\d{6}Z-[a-z0-9]+(_\d+)?\.json")
_LOG = re.compile(r"\d{8}T\d{6}Z-[a-z0-9]+(_\d+)?\.log")
_COMPILE = re.compile(r"[a-z0-9-]+-\d{8}T\d{6}\.log")  # of a compile that failed
_REPORT = re.compile(r"internal-error-\d{8}-\d{6}-[a-z0-9_]+\.txt")


def expired(cache: Path, days: float) -> list[Removable]:
    """Return the records older than ``days`` that nothing needs, each with its log."""
    before = time.time() - days * DAY_S
    records = list(_readable(cache))
    kept = _needed(records) | _newest(records)
    old = [(path, record) for path, record in records
           if path not in kept and path.stat().st_mtime < before]
    known = {path.stem for path, _ in records}
    return [*(_with_log(cache, path) for path, _ in old), *_lost_logs(cache, known, before),
            *_of_compiles(cache, before), *_old_reports(cache, before)]


def _readable(cache: Path) -> Iterator[tuple[Path, Record]]:
    """Yield the records under names of ours; one that cannot be read is left alone."""
    for path in named_files(records_folder(cache), "*/*", _RECORD):
        try:
            yield path, read_record(path)
        except UsageError:
            continue


def _needed(records: Sequence[tuple[Path, Record]]) -> set[Path]:
    """Return the last record that counts of each image and level."""
    last = {(record.image_id, record.level): path for path, record
            in sorted(records, key=lambda item: place_of(*item)) if record.is_conclusive}
    return set(last.values())


def _newest(records: Sequence[tuple[Path, Record]]) -> set[Path]:
    cells: dict[str, list[Path]] = defaultdict(list)
    for path, _ in records:
        cells[path.parent.name].append(path)
    return {path for paths in cells.values() for path in sorted(
        paths, key=lambda path: (*place_of(path), path.stem))[-KEEP_PER_CELL:]}


def _with_log(cache: Path, path: Path) -> Removable:
    log = cache / "logs" / path.parent.name / f"{path.stem}.log"
    paths = (log, path) if log.is_file() and not log.is_symlink() else (path,)
    return Removable(f"record {path.parent.name}/{path.stem}", paths,
                     sum(file.stat().st_size for file in paths))


def _lost_logs(cache: Path, known: set[str], before: float) -> Iterator[Removable]:
    """Yield old logs whose record is gone."""
    for log in named_files(cache, "logs/*/*", _LOG):
        record = records_folder(cache) / log.parent.name / f"{log.stem}.json"
        if log.stem not in known and not record.exists() and log.stat().st_mtime < before:
            yield Removable(f"log {log.parent.name}/{log.stem}", (log,), log.stat().st_size)


def _of_compiles(cache: Path, before: float) -> Iterator[Removable]:
    for log in named_files(cache, "logs/wheels/*", _COMPILE):
        if log.stat().st_mtime < before:
            yield Removable(f"log of a compile {log.stem}", (log,), log.stat().st_size)


def _old_reports(cache: Path, before: float) -> Iterator[Removable]:
    reports = list(named_files(cache, "logs/*", _REPORT))
    for path in reports[:-KEEP_REPORTS]:
        if path.stat().st_mtime < before:
            yield Removable(f"report {path.stem}", (path,), path.stat().st_size)
