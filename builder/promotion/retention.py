"""Which images of a repository are kept, and why; the rest may go by age.

Kept is what a tag holds (moving, ``-next``, dated), what a log names, what a recipe names, what a
passing record proves, what has a record that cannot be read, and what is too young or of unknown
age. Entries of logs and attached documents are always kept: evidence outlives its image. The tags
and logs of a cell that the matrix does not have any more, or never promotes now, count like all
others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from builder import labels as label
from builder.errors import VerdictError
from builder.limits import CONFIG_BYTES, read_file
from builder.promotion.cell import CellTags
from builder.promotion.dated import is_dated
from builder.promotion.evidence import describe, gather
from builder.promotion.log import chain, is_log_tag, logged_tags, read_state
from builder.promotion.moving import UNVERIFIED
from builder.record.models import TIME_FORMAT
from builder.registry.repository import Manifest, Repository
from builder.text import unbroken

PUSHED_TYPE = "application/vnd.sparkyard.pushed.v1+json"
PUSHED_NOTE = label.OCI + "created"
DAY_S = 86_400.0
_BESIDE = re.compile(r"sha256-[0-9a-f]{64}(\.[a-z]+)?")  # lists of referrers, cosign's signatures


@dataclass(frozen=True)
class Held:
    """One image with its tags: why it is kept, nothing where it may go; its age where known."""

    digest: str
    tags: tuple[str, ...]
    why: str
    days: float | None = None


def note_pushed(repository: Repository, manifest: Manifest, time: str) -> None:
    """Attach the time of an image's first push; the registry itself keeps none."""
    if not repository.referrers(manifest.digest, PUSHED_TYPE):
        repository.attach(manifest, PUSHED_TYPE, b"{}", {PUSHED_NOTE: time}, "pushed.json")


def standing(cells: Sequence[CellTags], pinned: Collection[str], days: float, now: str
             ) -> list[Held]:
    """Return every image of the repository that ``cells`` share, and why each is kept.

    ``pinned`` are texts that may name images: whole recipes. Raises VerdictError for a log that
    is broken: what it named is not known, so nothing may go.
    """
    repository = cells[0].repository
    images: dict[str, list[str]] = defaultdict(list)
    there = repository.tags()
    moving = sorted({*logged_tags(there), *(f"{cell.cell}{end}" for cell in cells
                                            for end in ("", UNVERIFIED))})
    for name in there:
        if not is_log_tag(name) and not _BESIDE.fullmatch(name):
            manifest = repository.manifest(name)
            if manifest is not None:
                images[manifest.digest].append(name)
    logged = {one.entry.target: tag for tag in moving
              for one in chain(repository, read_state(repository, tag).head)}
    return [_held(repository, digest, names, moving, logged, pinned, days, now)
            for digest, names in images.items()]


def recipe_texts(folder: Path) -> list[str]:
    """Return the text of every recipe; what it names is pinned."""
    return [read_file(path, CONFIG_BYTES, "recipe").decode("utf-8", "replace")
            for path in sorted(folder.glob("*.toml"))]


def _held(repository: Repository, digest: str, names: Sequence[str], moving: Sequence[str],
          logged: dict[str, str], pinned: Collection[str], days: float, now: str) -> Held:
    age = _age(repository, digest, now)
    why = next(_reasons(repository, digest, names, moving, logged, pinned), "")
    if not why and age is None:
        why = "it is not known when it was pushed"
    elif not why and age is not None and age < days:
        why = f"it was pushed {age:.0f} days ago"
    return Held(digest, tuple(names), why, age)


def _reasons(repository: Repository, digest: str, names: Sequence[str],
             moving: Sequence[str], logged: dict[str, str], pinned: Collection[str]
             ) -> Iterator[str]:
    for name in names:
        if name in moving or name.endswith("-next") or any(is_dated(name, tag) for tag in moving):
            yield f"the tag {name} holds it"
        if any(name in text for text in pinned):
            yield f"a recipe names {name}"
    if any(digest in text for text in pinned):
        yield "a recipe names its digest"
    if digest in logged:
        yield f"the log of {logged[digest]} names it"
    yield from _evidence(repository, digest)


def _evidence(repository: Repository, digest: str) -> Iterator[str]:
    """Yield why evidence keeps an image; what cannot be read may be the record that proves it."""
    try:
        found = gather(repository, digest)
    except VerdictError:
        yield "what is attached to it cannot be read"
        return
    if good := [record for record in found.records if record.passed]:
        yield f"a record proves it: {describe(good[0])}"
    if found.lost:
        yield "records of it were lost, and one may prove it"
    if found.refused:
        yield f"a record is attached that does not count: {unbroken(str(found.refused[0]))}"


def _age(repository: Repository, digest: str, now: str) -> float | None:
    times = [artifact.notes.get(PUSHED_NOTE, "")
             for artifact in repository.referrers(digest, PUSHED_TYPE)]
    try:
        return min((_time(now) - _time(time)).total_seconds() / DAY_S for time in times)
    except ValueError:
        return None


def _time(text: str) -> datetime:
    return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC)
