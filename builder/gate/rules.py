"""What no binary says and a verdict needs: load order, the driver's libraries, known faults.

The data is ``rules.toml``; each entry has its reason and its source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import tomli
from pydantic import Field

from builder import specifiers
from builder.locking.findings import FindingCode
from builder.model import Frozen, Specifier


class After(Frozen):
    """Files that are loaded only after ``loaded``: patterns of paths below site-packages."""

    pattern: str
    loaded: tuple[str, ...]
    reason: str
    link: str


class Global(Frozen):
    """Libraries whose symbols all others see, since a program loads them with RTLD_GLOBAL."""

    pattern: str
    reason: str
    link: str


class Driver(Frozen):
    """A library that comes from the host's driver, and which symbols it may define."""

    library: str
    symbols: str
    reason: str


class Excused(Frozen):
    """Extensions that may fail to load without harm, in these ``versions`` of their ``wheel``.

    ``torch`` is a glob of the versions of torch beside which that holds.
    """

    pattern: str
    wheel: str = ""
    versions: Specifier = specifiers.ANY
    torch: str = "*"
    reason: str
    link: str

    def holds_beside(self, torch: str) -> bool:
        """Say whether the rule is for closures with this version of torch."""
        return fnmatchcase(torch, self.torch)


class Operators(Frozen):
    """Libraries that ``torch.ops.load_library`` loads: extensions that no file name shows."""

    pattern: str
    reason: str
    link: str


class Owner(Frozen):
    """Libraries and C++ namespaces that come from one wheel alone.

    Where that wheel is given and lacks one of them, no other wheel can bring it.
    """

    wheel: str
    libraries: tuple[str, ...]
    namespaces: tuple[str, ...]
    reason: str
    link: str

    def has_library(self, name: str) -> bool:
        """Say whether a library would be in the wheel."""
        return any(fnmatchcase(name, pattern) for pattern in self.libraries)

    def has_symbol(self, name: str) -> bool:
        """Say whether a mangled name is of one of the namespaces, as GCC and Clang write them."""
        spelt = "|".join(f"{len(one)}{one}" for one in self.namespaces)
        return re.match(rf"_Z(T[VTIS]|GV)?N[rVK]*[RO]?({spelt})", name) is not None


class Collision(Frozen):
    """A path that several wheels install and nothing reads at run time."""

    pattern: str
    reason: str
    link: str


class KnownDamage(Frozen):
    """A fault of one published wheel, in the files ``pattern`` names, that a build can accept."""

    wheel: str
    pattern: str
    code: FindingCode
    reason: str
    link: str


class Bounded(Frozen):
    """A package that a closure should hold to the releases that its users were made for."""

    wheel: str
    reason: str
    link: str


class Rules(Frozen):
    """All of ``rules.toml``; ``debian`` maps a library to the package that has it."""

    after: tuple[After, ...] = ()
    visible: tuple[Global, ...] = Field(default=(), alias="global")
    driver: tuple[Driver, ...] = ()
    operators: tuple[Operators, ...] = ()
    extension: tuple[Excused, ...] = ()
    owner: tuple[Owner, ...] = ()
    collision: tuple[Collision, ...] = ()
    damage: tuple[KnownDamage, ...] = ()
    bounded: tuple[Bounded, ...] = ()
    debian: Mapping[str, str] = Field(default_factory=dict)

    def loads_operators(self, path: str) -> bool:
        """Say whether torch itself loads a file, as it loads libraries of operators."""
        return any(fnmatchcase(path, rule.pattern) for rule in self.operators)

    def excuse(self, path: str, version: str = "", torch: str = "") -> Excused | None:
        """Return why a file may fail to load, None where it may not.

        ``version`` is that of its wheel, ``torch`` that of the closure's torch.
        """
        return next((rule for rule in self.extension if fnmatchcase(path, rule.pattern)
                     and rule.holds_beside(torch) and (rule.versions == specifiers.ANY
                          or specifiers.allows(rule.versions, version))), None)

    def known_damage(self, wheel: str, code: FindingCode, path: str) -> KnownDamage | None:
        """Return why a build may go on with a damaged file of a wheel, None where it may not."""
        return next((rule for rule in self.damage
                     if (rule.wheel, rule.code) == (wheel, code)
                     and fnmatchcase(path, rule.pattern)), None)

    def before(self, path: str) -> tuple[str, ...]:
        """Return the patterns of what is loaded before a file."""
        return tuple(pattern for rule in self.after if fnmatchcase(path, rule.pattern)
                     for pattern in rule.loaded)


@cache
def rules() -> Rules:
    """Read the rules that come with the program."""
    text = Path(__file__).with_name("rules.toml").read_text(encoding="utf-8")
    return Rules.model_validate(tomli.loads(text))
