"""Which files of a wheel a lean image leaves out or does not touch: data, each with its reason."""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import tomli

from builder.gate.policy import Need, policy
from builder.model import Frozen, Link

NEVER = "never used on this GPU"
CODE_SUFFIXES = (".so", ".cubin", ".fatbin")  # modules beside them may be imported, so they stay
DATA = ("lean/rules.toml", "gate/policy.toml")
CODE = ("lean/regions.py", "lean/segments.py", "lean/library.py", "lean/rules.py", "lean/wheel.py",
        "gate/coverage.py")


class LeaveOut(Frozen):
    """Files that no run needs: the name of the rule, patterns and exceptions, reason and link."""

    name: str
    patterns: tuple[str, ...]
    keep: tuple[str, ...] = ()
    reason: str
    link: Link


class Untouched(Frozen):
    """Files that are neither trimmed nor left out."""

    patterns: tuple[str, ...]
    reason: str
    link: Link


class Rules(Frozen):
    """All of ``rules.toml``."""

    leave_out: tuple[LeaveOut, ...]
    untouched: tuple[Untouched, ...]


class Removal(Frozen):
    """Why a file is left out: the rule's name and its reason."""

    rule: str
    reason: str


@cache
def rules() -> Rules:
    """Read the rules that come with the program."""
    text = Path(__file__).with_name("rules.toml").read_text(encoding="utf-8")
    return Rules.model_validate(tomli.loads(text))


@cache
def version() -> str:
    """Return the digest of everything but the wheel that a trimmed wheel depends on."""
    state, here = hashlib.sha256(), Path(__file__).parents[1]
    for name in (*DATA, *CODE):
        state.update(name.encode() + b"\0" + (here / name).read_bytes())
    return state.hexdigest()


def removal(path: str, gpu: str) -> Removal | None:
    """Return why a lean image for ``gpu`` leaves out a file of a wheel, None where it stays."""
    rule = policy().rule(path, gpu)
    if rule.need is Need.NEVER and (path.endswith(CODE_SUFFIXES) or ".so." in path):
        return Removal(rule=NEVER, reason=rule.reason)
    if untouched(path):
        return None
    for entry in rules().leave_out:
        if _matches(path, entry.patterns) and not _matches(path, entry.keep):
            return Removal(rule=entry.name, reason=entry.reason)
    return None


def untouched(path: str) -> bool:
    """Say whether a file stays exactly as it was published."""
    return any(_matches(path, entry.patterns) for entry in rules().untouched)


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
