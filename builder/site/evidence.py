"""Records grouped as the page shows them: a cell, the images tested for it, and their runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from builder import labels as label
from builder.record.models import Record
from builder.report.view import versions

LEVELS = ("1a", "1b", "2", "2x2")  # each shows more than the one before
PLACES = {"unseen": "unseen hardware", "emulated": "emulated CPU", "cpu": "CPU",
          "gpu": "other GPU", "gb10": "GB10"}  # the best evidence last
NO_IMAGE = "unknown image"
NO_MODEL = "no model"
MANIFEST = "manifest"
Outcome = Literal["pass", "fail", "none"]


@dataclass(frozen=True)
class Verdict:
    """What all runs together say: one failure outweighs every pass."""

    outcome: Outcome
    words: str
    best: Record | None = None  # the passing run of the highest level

    @property
    def gb10(self) -> bool:
        """Say whether a GB10 has shown it, in a record that is no sample."""
        return bool(self.outcome == "pass" and self.best and self.best.gb10
                    and not is_sample(self.best))


@dataclass(frozen=True)
class Tested:
    """One image by digest: its runs, newest first, and what differs from the image before it.

    ``kind`` says which digest it is: that of a manifest in a registry, or of the configuration of
    an image that was in none.
    """

    digest: str
    kind: str
    runs: tuple[Record, ...]
    changes: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models that ran on it."""
        return tuple(dict.fromkeys(model_of(run) for run in self.runs))

    @property
    def verdict(self) -> Verdict:
        """Return what all its smoke tests say."""
        return verdict_of(self.runs)

    def latest(self, model: str) -> Record:
        """Return the newest run of a model that gives a verdict, else its newest run."""
        runs = [run for run in self.runs if model_of(run) == model]
        return next((run for run in runs if run.is_conclusive and run.level != "bench"), runs[0])

    def of_model(self, model: str) -> Verdict:
        """Return what the smoke tests of one model say."""
        return verdict_of([run for run in self.runs if model_of(run) == model])


@dataclass(frozen=True)
class Evidence:
    """All images of a cell that have records, the newest first."""

    cell: str
    images: tuple[Tested, ...]


def is_sample(record: Record) -> bool:
    """Say whether a record is made up to show the page, not measured."""
    return label.SAMPLE in record.labels


def model_of(record: Record) -> str:
    """Return the name of the model that a run served."""
    return record.model.name if record.model else NO_MODEL


def image_of(record: Record) -> tuple[str, str]:
    """Return the digest of the image that was tested, and which digest it is."""
    if record.image_digest:
        return record.image_digest, MANIFEST
    return record.image_id or NO_IMAGE, "configuration"


def verdict_of(runs: Iterable[Record]) -> Verdict:
    """Return what some runs say together; a benchmark says nothing about right answers.

    A run in which something had failed before it was cut off counts as failed.
    """
    ended = [run for run in runs if run.is_conclusive and run.level != "bench"]
    failed = sum(not run.passed for run in ended)
    if failed:
        return Verdict("fail", "failed" if failed == len(ended) == 1
                       else f"{failed} of {len(ended)} runs failed")
    if not ended:
        return Verdict("none", "no verdict")
    return Verdict("pass", "passed", max(ended, key=_weight))


def in_words(verdict: Verdict) -> str:
    """Return a verdict with the level and the hardware of the best run."""
    if verdict.best is None:
        return verdict.words
    said = f"{verdict.words} level {verdict.best.level} on {PLACES[verdict.best.where]}"
    return f"sample: {said}" if is_sample(verdict.best) else said


def gather(records: Sequence[Record]) -> dict[str, Evidence]:
    """Return the evidence of each cell that has records."""
    by_cell: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda one: one.started):
        by_cell.setdefault(record.cell, []).append(record)
    return {cell: Evidence(cell, _images(found)) for cell, found in sorted(by_cell.items())}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return the versions that differ, in words."""
    return tuple(f"{name} {before.get(name, 'none')} \N{RIGHTWARDS ARROW} {after.get(name, 'none')}"
                 for name in sorted({*before, *after}) if before.get(name) != after.get(name))


def _images(oldest_first: Sequence[Record]) -> tuple[Tested, ...]:
    """Group runs by image, in the order in which the images were first tested."""
    grouped: dict[tuple[str, str], list[Record]] = {}
    for record in oldest_first:
        grouped.setdefault(image_of(record), []).append(record)
    images, before = [], None
    for (digest, kind), runs in grouped.items():
        now = dict(versions(runs[-1].labels))
        differs = changes(before, now) if before and now else ()
        images.append(Tested(digest, kind, tuple(reversed(runs)), differs))
        before = now or before
    return tuple(reversed(images))


def _weight(record: Record) -> tuple[bool, int, int, str]:
    level = LEVELS.index(record.level) if record.level in LEVELS else -1
    return not is_sample(record), list(PLACES).index(record.where), level, record.started
