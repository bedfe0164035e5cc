"""The evidence of a smoke run: one JSON document a run, and how it is found again.

``docs/record.schema.json`` is its published shape; ``builder.record_writer`` writes it as the run
goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError, computed_field, model_validator

from builder.errors import UsageError
from builder.files import write_text
from builder.model import Frozen
from builder.record.bench import Bench
from builder.record.check import Check, Status
from builder.record.check import passed as all_passed
from builder.record.gpu import Gpu, Where
from builder.record.host_facts import HostFacts

VERSION = 2
Level = Literal["1a", "1b", "2", "bench"]
State = Literal["running", "finished", "interrupted"]
NO_HOST = HostFacts(kernel="", machine="", system="", cpu="", cpus=0, memory=0, engine="")


class ModelUsed(Frozen):
    """The checkpoint: a hub repository or a folder, and its revision.

    ``revision`` is the commit or branch of a repository, and for a folder ``sha256:…`` over its
    files. A folder outside of the checkout is known by its name only.
    """

    name: str
    repository: str = ""
    path: str = ""
    revision: str


class Record(Frozen):
    """What was checked, on what, where, with which result.

    ``state`` is ``running`` until the run says how it ended; a run that was killed stays so.
    ``reason`` says in words why a run was interrupted. Times are UTC; ``updated`` is when it was
    last written. ``image_digest`` is the manifest's digest in a registry, empty for an image that
    was in none; ``lock`` and ``recipe_digest`` are digests of the files. ``where`` is where it was
    measured: no figure of a CPU or an emulated run is one of a GB10. ``phases`` are the seconds of
    each boot phase of a served model, ``metrics`` the server's own counters at the end; ``bench``
    is what a benchmark measured, the level being ``bench``. ``log`` lies in the cache folder.
    """

    record_version: Literal[2] = 2
    state: State = "finished"
    reason: str = ""
    cell: str
    level: Level
    image: str
    image_id: str
    image_digest: str = ""
    labels: Mapping[str, str]
    lock: str
    recipe: str
    recipe_digest: str = ""
    model: ModelUsed | None = None
    where: Where
    gpus: tuple[Gpu, ...] = ()
    host: HostFacts = NO_HOST
    started: str
    updated: str = ""
    seconds: float
    phases: Mapping[str, float]
    checks: tuple[Check, ...]
    metrics: Mapping[str, float] = {}
    bench: Bench | None = None
    log: str
    diagnosis: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _what_follows(cls, raw: Any) -> Any:
        """Leave out what follows from the rest, which the document also says."""
        if not isinstance(raw, dict):
            return raw
        return {key: value for key, value in raw.items() if key not in ("verdict", "gb10")}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Literal["pass", "fail", "none"]:
        """Say pass or fail; a run that did not reach its end has no verdict."""
        if self.state != "finished":
            return "none"
        return "pass" if all_passed(self.checks) else "fail"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def gb10(self) -> bool:
        """Say whether this is evidence of a GB10."""
        return self.where == "gb10"

    @property
    def passed(self) -> bool:
        """Say whether it reached its end and the verdict is good."""
        return self.verdict == "pass"

    @property
    def speaks(self) -> bool:
        """Say whether it counts: it reached its end, or something had failed before it was cut."""
        return self.state == "finished" or any(
            check.status in (Status.FAIL, Status.FLAKY) for check in self.checks)

    def document(self) -> dict[str, Any]:
        """Return the record as JSON, with its verdict."""
        return self.model_dump(mode="json")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a record, for those who read records without this program."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema",
            **Record.model_json_schema(mode="serialization"), "title": "Sparkyard smoke record"}


def records_folder(cache: Path) -> Path:
    """Return where records lie."""
    return cache / "records"


def now() -> str:
    """Return the time as records write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp(record: Record) -> str:
    """Return the name of a record and of its log: when it began, and the level."""
    return f"{record.started.replace(':', '').replace('-', '')}-{record.level}"


def free_path(folder: Path, record: Record) -> Path:
    """Return where a new record goes; runs of the same second stand in order, too."""
    path, number = folder / record.cell / f"{stamp(record)}.json", 1
    while path.exists():
        number += 1
        path = path.with_name(f"{stamp(record)}_{number}.json")
    return path


def write_record(path: Path, record: Record) -> Path:
    """Write a record whole, in one step, and return its path."""
    write_text(path, json.dumps(record.document(), indent=2, ensure_ascii=False) + "\n")
    return path


def read_record(path: Path) -> Record:
    """Read one record, also one of version 1; raises UsageError for what is none."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"this record cannot be read: {error}", where=str(path)) from error
    version = raw.get("record_version") if isinstance(raw, dict) else None
    if version not in (1, VERSION):
        raise UsageError(f"this is no record of version 1 or {VERSION}: its record_version is "
                         f"{version}", where=str(path),
                         next_step="a newer Sparkyard may have written it" if version else "")
    try:
        return Record.model_validate(_from_1(raw) if version == 1 else raw)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"this record is damaged: {first['msg']}",
                         where=f"{path}: {'.'.join(map(str, first['loc']))}") from error


def _no_number(text: str) -> float:
    """Refuse what Python alone takes for JSON: a duration or a rate without end is none."""
    raise ValueError(f"no number of JSON: {text}")


def _from_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a record of version 1 as one of today; what it did not say stays unknown."""
    log = Path(str(raw.get("log", "")))
    return {**raw, "record_version": VERSION, "log": f"logs/{log.name}"}


def read_records(folder: Path) -> list[Record]:
    """Return all readable records, oldest first; a damaged one proves nothing and is left out."""
    records = []
    for path in sorted(folder.glob("*/*.json")):
        try:
            records.append(read_record(path))
        except UsageError:
            continue
    return sorted(records, key=lambda record: record.started)


def passed(folder: Path, image_id: str) -> bool:
    """Say whether the last run of each level on this very image was good, and there was one.

    A run that was cut off before anything failed says nothing, neither way; nor does a benchmark,
    which tells how fast an image is and not whether it is right.
    """
    last = {record.level: record for record in read_records(folder)
            if record.image_id == image_id and record.speaks and record.level != "bench"}
    return bool(last) and all(record.passed for record in last.values())
