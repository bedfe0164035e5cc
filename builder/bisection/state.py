"""What a bisection has found so far, on disk after each version: a killed one goes on from there.

One file a search in the cache folder. Another recipe file, cell or range is another search.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from builder.bisection.search import Search, Verdict
from builder.errors import UsageError, command
from builder.files import write_text
from builder.limits import RECORD_BYTES, read_file
from builder.model import Frozen
from builder.record.models import Level

FOLDER = "bisect"


class Step(Frozen):
    """One version that was judged: the record of its run, or why it was skipped."""

    version: str
    verdict: Verdict
    record: str = ""
    diagnosis: str = ""
    seconds: float = 0.0


class Question(Frozen):
    """What is searched for; ``recipe_digest`` and ``intent`` make a changed one another search."""

    recipe: str
    recipe_digest: str
    cell: str
    intent: str
    level: Level
    good: str
    bad: str
    nightlies: bool = False

    @property
    def key(self) -> str:
        """Return the name of the search's file and folder."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return f"{self.recipe}-{self.cell}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


class Bisection(Frozen):
    """A search and its steps, in the order in which they were taken.

    ``turn`` counts up with each search that is written: a clock may have been set back.
    """

    question: Question
    versions: Annotated[tuple[str, ...], Field(min_length=2)]
    steps: tuple[Step, ...] = ()
    turn: Annotated[int, Field(ge=0)] = 0

    @property
    def search(self) -> Search:
        """Return what is known so far."""
        return Search(self.versions, {step.version: step.verdict for step in self.steps})

    @property
    def is_finished(self) -> bool:
        """Say whether nothing is left to judge."""
        return self.search.next_version is None

    def with_step(self, step: Step) -> Bisection:
        """Return the search with one more step."""
        return self.model_copy(update={"steps": (*self.steps, step)})

    def step(self, version: str) -> Step | None:
        """Return the step of a version."""
        return next((step for step in self.steps if step.version == version), None)


def state_path(cache: Path, question: Question) -> Path:
    """Return the file of a search."""
    return cache / FOLDER / f"{question.key}.json"


def load(cache: Path, question: Question) -> Bisection | None:
    """Return the search as it was left, None for a new one; raises UsageError if damaged."""
    path = state_path(cache, question)
    if not path.exists():
        return None
    if (found := read(path)).question != question:
        raise _damaged(path)
    return found


def read(path: Path) -> Bisection:
    """Read a search; raises UsageError where the file is damaged."""
    try:
        return Bisection.model_validate_json(read_file(path, RECORD_BYTES, "bisection"))
    except ValidationError as error:
        raise _damaged(path) from error


def save(cache: Path, bisection: Bisection) -> Path:
    """Write a search, whole or not at all."""
    path = state_path(cache, bisection.question)
    path.parent.mkdir(parents=True, exist_ok=True)
    turn = 1 + max((one.turn for one in _readable(path.parent)), default=0)
    text = bisection.model_copy(update={"turn": turn}).model_dump_json(indent=1)
    write_text(path, text + "\n")
    return path


def newest(cache: Path, recipe: str) -> Bisection | None:
    """Return the finished search of a recipe that was written last; UsageError for damage."""
    written = {path: read(path) for path in (cache / FOLDER).glob(f"{recipe}-*.json")}
    found = sorted(((one.turn, path.stat().st_mtime, path.name) for path, one in written.items()
                    if one.question.recipe == recipe and one.is_finished), reverse=True)
    return written[cache / FOLDER / found[0][2]] if found else None


def _readable(folder: Path) -> Iterator[Bisection]:
    for path in folder.glob("*.json"):
        with suppress(UsageError):
            yield read(path)


def _damaged(path: Path) -> UsageError:
    return UsageError("the state of this bisection is damaged", where=str(path),
                      next_step=f"begin anew: {command('bisect', '…', '--restart')}")
