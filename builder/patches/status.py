"""What a series of patches comes to on a wheel, before anything is built and without a checkout.

Each patch is judged on the wheel as the patches before it left it. One that is upstream or
superseded is dropped with a word, one that does not apply hurts itself only: the others go on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from builder.errors import PatchError, command
from builder.files import write_text
from builder.model import Frozen
from builder.patches.apply import Applied, Blob, Conflict, Layered, Tree, apply_files
from builder.patches.diff import parse_diff
from builder.patches.diffs import cache_errors
from builder.patches.filepatch import FilePatch, reverse
from builder.patches.scope import COMPILED, EXCLUDED_BY_DEFAULT, Scope, scope_of
from builder.patches.superseded import is_met
from builder.patches.wheel_tree import WheelTree, open_tree

FORMAT = 2  # raise it when the same patches are to be judged otherwise


class Standing(StrEnum):
    """What a patch is to a wheel."""

    APPLIES = "applies"
    UPSTREAM = "already upstream"
    SUPERSEDED = "superseded"
    CONFLICT = "conflict"
    COMPILE = "needs a compile"
    COMPILED = "compiled"  # into the wheel, see builder.wheels; nothing is left to apply
    UNRESOLVED = "unresolved"


FATAL = frozenset({Standing.CONFLICT, Standing.COMPILE, Standing.UNRESOLVED})


@dataclass(frozen=True)
class Candidate:
    """One patch to be judged: ``diff`` is None where its bytes cannot be had.

    ``id`` is for people (``vllm-project/vllm#38909``), ``tag`` its part of the patched version
    (``38909``). ``undo`` says that the diff is to be taken back, ``why`` what became of its bytes.
    ``compiled`` says that the wheel was compiled from sources with it, so that only files which
    are not compiled are left to change.
    """

    id: str
    tag: str
    diff: bytes | None
    required: bool = True
    undo: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    why: str = ""
    compiled: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Return what its standing depends on, beside the wheel."""
        digest = None if self.diff is None else hashlib.sha256(self.diff).hexdigest()
        return (self.id, digest, self.undo, self.include, self.exclude,
                *(("compiled",) if self.compiled else ()))


class Verdict(Frozen):
    """One patch on one wheel: its standing, and why."""

    id: str
    standing: Standing
    detail: str = ""
    conflicts: tuple[Conflict, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """Return the standing and its detail in a line, and the conflicts below, for people."""
        first = f"{self.standing}" + (f" ({self.detail})" if self.detail else "")
        return "\n".join([first, *(str(conflict) for conflict in self.conflicts)])

    @property
    def line(self) -> str:
        """Return the same with the patch's name before it."""
        return f"{self.id}: {self.why}"


@dataclass(frozen=True)
class Judged:
    """A whole series on one wheel: a verdict for each patch, and what those that apply change."""

    verdicts: tuple[Verdict, ...]
    changes: Mapping[str, Blob | None] = field(default_factory=dict)


def judge(tree: WheelTree, series: Sequence[Candidate]) -> Judged:
    """Judge a series in its order on a wheel's sources."""
    done = Layered(tree)
    verdicts: list[Verdict] = []
    for candidate in series:
        scoped = partial(scope_of, packages=tree.packages, include=candidate.include,
                         exclude=candidate.exclude)
        verdict, changes = judge_one(candidate, scoped, tree, done)
        verdicts.append(verdict)
        done.add(changes)
    return Judged(tuple(verdicts), done.changes)


def standings(wheel: Path, sha256: str, series: Sequence[Candidate], cache: Path
              ) -> tuple[Verdict, ...]:
    """Return the verdicts on a wheel file, from ``cache`` where they were found before.

    They depend on the wheel's bytes and the patches' alone, so cells that share both share them.
    """
    place = cache / "patches" / "standings" / f"{series_key(sha256, series)}.json"
    reader = TypeAdapter(tuple[Verdict, ...])
    try:
        return reader.validate_json(place.read_bytes())
    except (OSError, ValidationError):
        pass  # not judged yet, or unreadable: judged again
    with open_tree(wheel) as tree:
        verdicts = judge(tree, series).verdicts
    with cache_errors(cache):
        write_text(place, reader.dump_json(verdicts).decode() + "\n")
    return verdicts


def series_key(sha256: str, series: Sequence[Candidate]) -> str:
    """Return the digest of all that the verdicts of a series depend on."""
    text = json.dumps([FORMAT, EXCLUDED_BY_DEFAULT, COMPILED, sha256, [one.key for one in series],
                       [one.why for one in series if one.why]])
    return hashlib.sha256(text.encode()).hexdigest()


def applied_tags(series: Sequence[Candidate], verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the version tags of the patches that apply, in order."""
    return tuple(candidate.tag for candidate, verdict in zip(series, verdicts, strict=True)
                 if verdict.standing is Standing.APPLIES)


def failed(series: Sequence[Candidate], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts on required patches that fail the cell."""
    return [verdict for candidate, verdict in zip(series, verdicts, strict=True)
            if candidate.required and verdict.standing in FATAL]


def require(cell: str, series: Sequence[Candidate], verdicts: Sequence[Verdict]) -> list[str]:
    """Raise PatchError when a required patch does not apply; return a warning for each left out."""
    fatal = failed(series, verdicts)
    if fatal:
        raise PatchError("a required patch does not apply\n"
                         + "\n".join(verdict.line for verdict in fatal), where=cell,
                         next_step=f"see {command('patch', 'status', cell)}; then remove the "
                         "patch, restrict it to other versions (`versions`), or mark it optional "
                         "(`required = false`)")
    return [f"patch {verdict.id} is left out: {verdict.why}"
            for verdict in verdicts
            if verdict.standing not in (Standing.APPLIES, Standing.COMPILED)]


def judge_one(candidate: Candidate, scoped: Callable[[Sequence[FilePatch]], Scope], tree: Tree,
              done: Layered) -> tuple[Verdict, Mapping[str, Blob | None]]:
    """Judge one patch on ``tree`` and on ``done``, which has the patches before it on top.

    ``scoped`` says which of its files count. The changes are empty unless it applies.
    """
    if candidate.diff is None:
        return Verdict(id=candidate.id, standing=Standing.UNRESOLVED,
                       detail=candidate.why or "its bytes are not available"), {}
    try:
        scope = scoped(parse_diff(candidate.diff, candidate.id))
        standing, detail, applied = _standing(candidate, scope, tree, done)
    except PatchError as error:
        return Verdict(id=candidate.id, standing=Standing.CONFLICT, detail=error.what), {}
    verdict = Verdict(id=candidate.id, standing=standing, detail=detail,
                      conflicts=applied.conflicts if standing is Standing.CONFLICT else (),
                      left_out=scope.left_out)
    return verdict, applied.changes if standing is Standing.APPLIES else {}


def _standing(candidate: Candidate, scope: Scope, tree: Tree, done: Layered
              ) -> tuple[Standing, str, Applied]:
    if scope.compiled and candidate.compiled and not scope.files:
        return Standing.COMPILED, f"{len(scope.compiled)} files", Applied()
    if scope.compiled and not candidate.compiled:
        return Standing.COMPILE, f"it touches {', '.join(scope.compiled[:3])}", Applied()
    if not scope.files:
        return Standing.CONFLICT, "nothing of it remains: all its files are excluded", Applied()
    files = reverse(scope.files) if candidate.undo else scope.files
    applied, undone = apply_files(files, done), _undone(files, tree)
    # Repeated lines can let a patch go in twice: of two ways that work, the nearer one is meant.
    if undone and (applied.conflicts or undone.moved <= applied.moved):
        return Standing.UPSTREAM, _moved("found in the sources", undone), applied
    if not applied.conflicts:
        return Standing.APPLIES, _moved("", applied), applied
    if _undone(files, done):
        return Standing.SUPERSEDED, "an earlier patch of the series contains it", applied
    if is_met(files, tree):
        return Standing.SUPERSEDED, "the sources have its lines in another form", applied
    count = len(applied.conflicts)
    return Standing.CONFLICT, f"in {count} place{'' if count == 1 else 's'}", applied


def _undone(files: Sequence[FilePatch], tree: Tree) -> Applied | None:
    """Return what taking the patch back comes to, where that is possible."""
    try:
        found = apply_files(reverse(files), tree)
    except PatchError:
        return None
    return None if found.conflicts else found


def _moved(detail: str, applied: Applied) -> str:
    shift = f"moved by {applied.moved} lines" if applied.moved else ""
    return ", ".join(part for part in (detail, shift) if part)
