"""The evidence of a smoke run: one JSON document, written in one step, found again by image id."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from builder.lock import write_text
from builder.matrix import Frozen
from builder.smoke.verdict import Check
from builder.smoke.verdict import passed as all_passed

Where = Literal["cpu", "emulated", "gb10"]


class Record(Frozen):
    """What was checked, on what, where, with which result.

    ``where`` is where it was measured: no figure of a CPU or an emulated run is one of a GB10.
    ``phases`` are the seconds of each boot phase of a served model.
    """

    record_version: Literal[1] = 1
    cell: str
    level: Literal["1a", "1b", "2"]
    recipe: str
    image: str
    image_id: str
    lock: str
    labels: Mapping[str, str]
    where: Where
    started: str
    seconds: float
    phases: Mapping[str, float]
    checks: tuple[Check, ...]
    log: str
    diagnosis: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Say whether the verdict is good."""
        return all_passed(self.checks)

    def document(self) -> dict[str, Any]:
        """Return the record as JSON, with its verdict."""
        return {**self.model_dump(mode="json"), "verdict": "pass" if self.passed else "fail",
                "gb10": self.where == "gb10"}


def records_folder(cache: Path) -> Path:
    """Return where records lie."""
    return cache / "records"


def now() -> str:
    """Return the time as records write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_record(folder: Path, record: Record) -> Path:
    """Write a record in one step and return its path."""
    stamp = record.started.replace(":", "").replace("-", "")
    path = folder / record.cell / f"{stamp}-{record.level}.json"
    write_text(path, json.dumps(record.document(), indent=2, ensure_ascii=False) + "\n")
    return path


def read_records(folder: Path) -> list[Record]:
    """Return all readable records, oldest first; a damaged one proves nothing and is left out."""
    records = []
    for path in folder.glob("*/*.json"):
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            records.append(Record.model_validate(
                {key: value for key, value in raw.items() if key not in ("verdict", "gb10")}))
        except (OSError, ValueError, ValidationError):
            continue
    return sorted(records, key=lambda record: record.started)


def passed(folder: Path, image_id: str) -> bool:
    """Say whether the last run of each level on this very image was good, and there was one."""
    last = {record.level: record for record in read_records(folder) if record.image_id == image_id}
    return bool(last) and all(record.passed for record in last.values())
