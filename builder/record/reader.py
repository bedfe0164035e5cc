"""Reading records back: strict JSON within limits, undamaged, unaltered, and free of contradiction.

A record is evidence, so a document that may say something untrue is refused, not repaired.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from builder import console
from builder.errors import UsageError, command
from builder.limits import RECORD_BYTES, read_file
from builder.record.find import record_files
from builder.record.models import COMPUTED, VERSION, Record, digest_of, place_of
from builder.text import one_line
from builder.wording import first_violation

MAX_DEPTH = 64  # levels of nesting; llama-benchy's own JSON, the deepest part, has 6
MAX_VALUES = 200_000  # in a whole document; a level 2 record has 1,000
SHOWN = 80  # characters of a foreign value in a message
NEXT_STEP = f"make a new record: {command('smoke', 'CELL')}"


def read_record(path: Path) -> Record:
    """Read one record; raises UsageError for anything else."""
    try:
        raw = parse_json(read_file(path, RECORD_BYTES, "record"))
    except OSError as error:
        raise UsageError(f"this record cannot be read: {error.strerror}", where=str(path),
                         next_step="name the file of a record; they lie in the folder records of "
                         "the cache") from error
    except ValueError as error:
        raise UsageError(f"this record cannot be read: {one_line(str(error), SHOWN)}",
                         where=str(path), next_step=NEXT_STEP) from error
    return record_of(raw, str(path))


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON document; raises ValueError where it is not strict JSON.

    Python alone would accept NaN, infinite numbers (``1e400``), a key that occurs twice, and any
    depth of nesting up to a crash.
    """
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_number, parse_float=_number,
                           object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep") from None
    _refuse_huge(value)
    return value


def record_of(raw: Any, where: str) -> Record:
    """Return the record that a parsed document holds; ``where`` names the document in errors."""
    version = raw.get("record_version") if isinstance(raw, dict) else None
    if version != VERSION or isinstance(version, bool):
        raise UsageError("this is not a record that this Sparkyard can read: its record_version "
                         f"is {one_line(repr(version), SHOWN)}, and {VERSION} is needed",
                         where=where, next_step=NEXT_STEP)
    try:
        record = Record.model_validate(raw)
    except ValidationError as error:
        where_in, what = first_violation(error)
        place = one_line(where_in, SHOWN)
        raise UsageError(f"this record is damaged: {one_line(what, 4 * SHOWN)}",
                         where=f"{where}: {place}" if place else where,
                         next_step=NEXT_STEP) from error
    _refuse_altered(raw, where)
    _refuse_contradictions(raw, record, where)
    return record


def newest_record(folder: Path) -> tuple[Path, Record]:
    """Return the newest record that can be read; newer ones that cannot are named in one line.

    Raises UsageError where there is none.
    """
    refused: list[UsageError] = []
    for path in reversed(record_files(folder)):
        try:
            record = read_record(path)
        except UsageError as error:
            refused.append(error)
            continue
        if refused:
            console.warn(f"{_counted(refused)} left out, since they cannot be read; the newest: "
                         f"{_first_line(refused)}")
        return path, record
    if refused:
        raise UsageError(f"no record can be read ({_counted(refused)} there); the newest: "
                         f"{_first_line(refused)}", where=str(folder), next_step=NEXT_STEP)
    raise UsageError("there are no records yet", where=str(folder),
                     next_step=f"make one: {command('smoke', 'CELL')}")


def read_records(folder: Path, *, warn: bool = True) -> list[Record]:
    """Return all readable records, oldest first by their names, which no clock can disorder.

    One that cannot be read proves nothing and is left out; ``warn`` says so.
    """
    records, refused = list[tuple[tuple[str, int], Record]](), list[UsageError]()
    for path in sorted(folder.glob("*/*.json")):
        try:
            record = read_record(path)
        except UsageError as error:
            refused.append(error)
        else:
            records.append((place_of(path, record), record))
    if refused and warn:
        console.warn(f"{len(refused)} of {len(records) + len(refused)} records are not counted; "
                     f"the first: {_first_line(refused)}")
    return [record for _, record in sorted(records, key=lambda item: item[0])]


def image_passed(folder: Path, image_id: str) -> bool:
    """Say whether the last conclusive run of each level on this very image passed, and one did.

    A benchmark does not count: it tells how fast an image is, not whether its answers are right.
    """
    last = {record.level: record for record in read_records(folder)
            if record.image_id == image_id and record.is_conclusive and record.level != "bench"}
    return bool(last) and all(record.passed for record in last.values())


def _counted(refused: Sequence[UsageError]) -> str:
    return f"{len(refused)} record" + ("" if len(refused) == 1 else "s")


def _first_line(refused: Sequence[UsageError]) -> str:
    return f"{refused[0].what.splitlines()[0]} ({refused[0].where})"


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"not a finite number: {text}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            raise ValueError(f'the key "{key}" occurs twice in one object')
        value[key] = item
    return value


def _refuse_huge(value: Any) -> None:
    """Raise ValueError for more nesting or more values than any record has."""
    level, total = [value], 1
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        total += len(level)
        if total > MAX_VALUES:
            raise ValueError(f"it holds more than {MAX_VALUES:,} values")
        if not level:
            return
    raise ValueError(f"nested more than {MAX_DEPTH} levels deep")


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _refuse_altered(raw: dict[str, Any], where: str) -> None:
    """Raise UsageError where the document's digest is not that of the rest of it."""
    said = raw.get("digest")
    actual = digest_of({key: value for key, value in raw.items() if key != "digest"})
    if said != actual:
        raise UsageError("this record was altered after it was written\n"
                         f"  its digest  {one_line(str(said), SHOWN)}\n"
                         f"  its content {actual}", where=where, next_step=NEXT_STEP)


def _refuse_contradictions(raw: dict[str, Any], record: Record, where: str) -> None:
    """Raise UsageError where the document says something else than what follows from it."""
    for name in COMPUTED:
        follows = getattr(record, name)
        if raw.get(name) != follows:
            raise UsageError(f"this record contradicts itself: it says "
                             f"{one_line(repr(raw.get(name)), SHOWN)}, and the rest of it "
                             f"says {follows!r}", where=f"{where}: {name}", next_step=NEXT_STEP)
