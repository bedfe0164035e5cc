"""The evidence of a run: one JSON document for each smoke test and benchmark.

``docs/record.schema.json`` is its published schema. ``builder.record.writer`` writes it while the
run proceeds, ``builder.record.reader`` reads it back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, computed_field, model_validator

from builder.files import write_text
from builder.model import Frozen
from builder.record.bench import Bench, describe_hardware
from builder.record.check import Check, Status
from builder.record.check import passed as all_passed
from builder.record.gpu import Gpu, Where, place
from builder.record.host_facts import HostFacts
from builder.record.host_state import HostState

VERSION = 3
COMPUTED = ("where", "gb10", "verdict")  # fields that follow from others
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
NAME = re.compile(r"([0-9]{8}T[0-9]{6}Z)-[a-z0-9]+(?:_([0-9]{1,9}))?")
Level = Literal["1a", "1b", "2", "2x2", "bench"]
State = Literal["running", "finished", "interrupted"]
Execution = Literal["native", "emulated", "unseen"]
NO_HOST = HostFacts(kernel="", machine="", system="", cpu="", cpus=0, memory=0, engine="")


class ModelUsed(Frozen):
    """The checkpoint: a repository of a hub or a folder, and its revision.

    ``revision`` is the commit or branch of a repository; for a folder it is ``sha256:…`` over its
    files. Of a folder outside the checkout only the last name is kept.
    """

    name: str
    repository: str = ""
    path: str = ""
    revision: str


class KnownFailure(Frozen):
    """A known issue that the log or a failed check shows.

    ``seen`` is the line that shows it. ``confirmed`` says that its cause is proven, not likely.
    ``ruled_out`` says why the versions rule it out although it looks like it; empty where not.
    ``shown_by`` says what would show this cause, ``or_else`` the other causes of the same line.
    """

    name: str
    cause: str
    confirmed: bool = True
    ruled_out: str = ""
    seen: str = ""
    shown_by: str = ""
    or_else: tuple[str, ...] = ()
    remedy: str = ""
    until: str = ""
    links: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it in the lines that the terminal and every report show."""
        head = f"{self.name}: {'' if self.confirmed else 'likely: '}{self.cause}"
        if self.ruled_out:
            return f"{head}\n  not claimed: the log looks like it, but {self.ruled_out}"
        rows = (("seen:", self.seen), ("shown by:", self.shown_by),
                *(("or else:", cause) for cause in self.or_else),
                ("remedy:", self.remedy), ("until:", self.until),
                ("see:", "\n            ".join(self.links)))
        return "\n".join([head, *(f"  {name:9} {value}" for name, value in rows if value)])


class Record(Frozen):
    """What was checked, on what, where, and with which result.

    ``state`` is ``running`` until the run says how it ended; a run that was killed stays so.
    ``process`` names the process of a run that goes on, so that it is known to be gone.
    ``reason`` says why a run was interrupted. Times are UTC; ``updated`` is when the record was
    last written. ``image_digest`` is the digest of the manifest in a registry, empty for an image
    that was in none; ``lock`` and ``recipe_digest`` are digests of these files. ``execution`` says
    whether the image's processor was the machine's own or emulated, or that Sparkyard did not
    start the server and has not seen its machine. ``phases`` are the seconds of each boot phase of
    a served model, ``metrics`` the server's own counters at the end, ``bench`` what a benchmark
    measured. ``log`` is a path in the cache folder. ``where``, ``gb10``, ``verdict`` and ``digest``
    follow from the other fields: they are written for readers and never believed.
    """

    record_version: Literal[3] = 3
    state: State = "finished"
    process: str = ""
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
    execution: Execution
    gpus: tuple[Gpu, ...] = ()
    host: HostFacts = NO_HOST
    host_state: HostState | None = None
    started: str
    updated: str = ""
    seconds: Annotated[float, Field(ge=0)]
    phases: Mapping[str, Annotated[float, Field(ge=0)]]
    checks: tuple[Check, ...]
    metrics: Mapping[str, float] = {}
    bench: Bench | None = None
    log: str
    diagnosis: tuple[KnownFailure, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _drop_computed(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        return {key: value for key, value in raw.items() if key not in (*COMPUTED, "digest")}

    @model_validator(mode="after")
    def _benchmark_agrees(self) -> Record:
        """Refuse a benchmark that claims other hardware than the record has seen."""
        if self.bench:
            stated = self.bench.conditions
            if stated.where != self.where:
                raise ValueError(f"the benchmark says it was measured on {stated.where}, the "
                                 f"record on {self.where}")
            seen = describe_hardware(self.where, self.gpus, self.host)
            if self.where != "unseen" and stated.hardware != seen:
                raise ValueError(f'the benchmark says it was measured on "{stated.hardware}", the '
                                 f'record has seen "{seen}"')
        return self

    @computed_field  # type: ignore[prop-decorator]
    @property
    def where(self) -> Where:
        """Where it was measured: no figure of a CPU or an emulated run is one of a GB10."""
        if self.execution == "unseen":
            return "unseen"
        return place(self.gpus, emulated=self.execution == "emulated")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def gb10(self) -> bool:
        """Say whether this is evidence of a GB10."""
        return self.where == "gb10"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Literal["pass", "fail", "none"]:
        """Say pass or fail; a run that did not reach its end has no verdict."""
        if self.state != "finished":
            return "none"
        return "pass" if all_passed(self.checks) else "fail"

    @computed_field(repr=False)  # type: ignore[prop-decorator]
    @property
    def digest(self) -> str:
        """Return the digest of all other fields: it shows that a record was altered."""
        return digest_of(self.model_dump(mode="json", exclude={"digest"}))

    @property
    def passed(self) -> bool:
        """Say whether it reached its end and the verdict is good."""
        return self.verdict == "pass"

    @property
    def is_conclusive(self) -> bool:
        """Say whether it reached its end, or something had failed before it was cut off."""
        return self.state == "finished" or any(
            check.status in (Status.FAIL, Status.FLAKY) for check in self.checks)

    def document(self) -> dict[str, Any]:
        """Return the record as JSON, with the fields that follow from others."""
        return self.model_dump(mode="json")


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the sha256 of a JSON document: keys sorted, no spaces, all but ASCII escaped."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode('ascii')).hexdigest()}"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a record, for those who read records without this program."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema",
            **Record.model_json_schema(mode="serialization"), "title": "Sparkyard record"}


def records_folder(cache: Path) -> Path:
    """Return the folder of all records."""
    return cache / "records"


def now() -> str:
    """Return the time as records write it."""
    return datetime.now(UTC).strftime(TIME_FORMAT)


def record_name(record: Record) -> str:
    """Return the file name of a record and of its log: when it started, and the level."""
    return f"{record.started.replace(':', '').replace('-', '')}-{record.level}"


def place_of(path: Path, record: Record | None = None) -> tuple[str, int]:
    """Return where a record stands among those of its cell and level: its name's time and number.

    A file of another name stands where its record says that it started.
    """
    parts = NAME.fullmatch(path.stem)
    if parts:
        return parts[1], int(parts[2] or 1)
    return (record_name(record) if record else path.stem).partition("-")[0], 1


def free_path(folder: Path, record: Record, not_before: str = "") -> Path:
    """Return the path of a new record; runs of the same second are numbered in order."""
    name = f"{max(record_name(record).partition('-')[0], not_before)}-{record.level}"
    path, number = folder / record.cell / f"{name}.json", 1
    while path.exists():
        number += 1
        path = path.with_name(f"{name}_{number}.json")
    return path


def next_path(folder: Path, record: Record) -> Path:
    """Return the path of a run that begins now: after all of its cell.

    Where the clock was set back, the name gets the time of the newest one and a number.
    """
    times = [place_of(path)[0] for path in (folder / record.cell).glob("*.json")
             if NAME.fullmatch(path.stem)]
    return free_path(folder, record, max(times, default=""))


def write_record(path: Path, record: Record) -> Path:
    """Write a record whole, in one step, and return its path."""
    write_text(path, json.dumps(record.document(), indent=2, ensure_ascii=False) + "\n")
    return path
