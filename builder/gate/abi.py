"""Will every extension load? Libraries, symbols and symbol versions, without running anything.

Each extension is loaded as a running vLLM would (``rules.toml`` has the order), with all symbols
bound, in a process that has loaded nothing else of the kind, and the findings are those that the
real loader has. Extensions are what Python imports; other libraries are looked at where an
extension asks for them, since the rest may be loaded by hand, or never.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from builder.binaries.facts import BaseFacts, ElfFacts, WheelFacts
from builder.gate.demangle import demangle
from builder.gate.loader import Loaded, Loader, Missing, Process
from builder.gate.rules import Rules, rules
from builder.locking.findings import Finding, Severity

# What Python imports; the first group is empty for abi3, which any later Python takes.
EXTENSION = re.compile(r"\.(?:(cpython-\d+)[a-z]*-[\w-]+|abi3)\.so$")
# Wheels that are built against one torch, beside vLLM: F5 names them.
SIBLINGS = ("torchaudio", "torchvision", "torchcodec")
NAMES_SHOWN = 4


@dataclass(frozen=True)
class Target:
    """What the closure is to run on: ``python`` is ``3.11``, ``machine`` ``aarch64``.

    Where it is not ``whole``, a library or symbol that one of the absent wheels may bring is not
    asked for.
    """

    python: str
    machine: str
    cuda: bool
    whole: bool = True


def check_abi(wheels: Sequence[WheelFacts], base: BaseFacts, target: Target,
              known: Rules | None = None) -> tuple[Finding, ...]:
    """Return what keeps the closure's extensions from loading on the base."""
    policy = known or rules()
    loader = Loader(wheels, base, policy, driver=target.cuda)
    owners = {elf.path: wheel for wheel in wheels for elf in wheel.elves}
    check = _Check(loader, owners, target)
    findings = [finding for path in sorted(loader.files) if EXTENSION.search(path)
                for finding in check.extension(loader.files[path])]
    findings += list(_too_new(loader, owners, base))
    return tuple(_excused(finding, policy) for finding in findings)


class _Check:
    """Loads extensions one by one, each in the process that its rule asks for."""

    def __init__(self, loader: Loader, owners: dict[str, WheelFacts], target: Target) -> None:
        self._loader, self._owners, self._target = loader, owners, target
        self._bound: set[str] = set()
        self._processes: dict[tuple[str, ...], Process] = {}
        self._told: set[tuple[str, str]] = set()
        self._names: dict[str, frozenset[str]] = {}
        here = {wheel.name for wheel in owners.values()}
        self._owned = [rule for rule in loader.rules.owner if rule.wheel in here]

    def extension(self, file: ElfFacts) -> Iterator[Finding]:
        """Yield what is wrong with one extension."""
        wheel = self._owners[file.path]
        if wrong := self._other_target(file):
            yield _finding("wrong-extension", "", wheel, file,
                           f"{file.path} is built for {wrong}", "nothing imports it here; if "
                           "something must, lock a wheel for this Python and processor",
                           severity=Severity.NOTE, found=wrong,
                           expected=f"Python {self._target.python}, {self._target.machine}")
            return
        loaded = self._load(file)
        for missing in loaded.missing:
            if (missing.file.path, missing.library) not in self._told:  # said of its first user
                self._told.add((missing.file.path, missing.library))
                if self._judged(missing.library):
                    yield self._missing(wheel, file, missing)
        if not any(self._judged(missing.library) for missing in loaded.missing):
            yield from self._unbound(wheel, file, loaded)

    def _judged(self, library: str) -> bool:
        """Say whether a library that was not found can be in no wheel that is not here."""
        return (self._target.whole or library in self._loader.rules.debian
                or any(rule.has_library(library) for rule in self._owned))

    def _other_target(self, file: ElfFacts) -> str:
        tag = EXTENSION.search(file.path)
        wanted = "cpython-" + self._target.python.replace(".", "")
        if file.machine != self._target.machine:
            return file.machine
        return tag[1] if tag and tag[1] and tag[1] != wanted else ""

    def _load(self, file: ElfFacts) -> Loaded:
        before = self._loader.rules.before(file.path)
        if before not in self._processes:
            self._processes[before] = self._loader.process(before)
        process = self._processes[before]
        return self._loader.load(file, Process(dict(process.names), process.visible))

    def _missing(self, wheel: WheelFacts, file: ElfFacts, missing: Missing) -> Finding:
        owner = self._owners.get(missing.file.path, wheel)
        number = "F5" if owner.name in SIBLINGS else "F6"
        package = self._loader.rules.debian.get(missing.library)
        step = (f"add the Debian package {package} to the base" if package else
                "lock the wheel that brings it, or another build of this one")
        return _finding("missing-library", number, owner, missing.file,
                        f"{missing.file.path} needs {missing.library}, which neither a wheel nor "
                        f"the base has; {file.path} cannot be imported", step,
                        expected=missing.library, found="nothing")

    def _unbound(self, wheel: WheelFacts, file: ElfFacts, loaded: Loaded) -> Iterator[Finding]:
        process = self._processes[self._loader.rules.before(file.path)]
        scope = [*process.visible, *loaded.scope]
        for one in loaded.fresh:
            names = [symbol.name for symbol in one.undefined if not symbol.weak
                     and not any(symbol.name in self._defined(other) for other in scope)]
            names = [name for name in names if not self._from_driver(name, loaded)]
            if not self._target.whole:  # of the rest nobody knows whose they are
                names = [name for name in names
                         if any(rule.has_symbol(name) for rule in self._owned)]
            if names and one.path not in self._bound:
                self._bound.add(one.path)
                yield self._undefined(wheel, one, names)

    def _defined(self, file: ElfFacts) -> Collection[str]:
        if file.path not in self._names:
            self._names[file.path] = frozenset(symbol.name for symbol in file.defined)
        return self._names[file.path]

    def _from_driver(self, name: str, loaded: Loaded) -> bool:
        return any(rule.library in loaded.driver and fnmatchcase(name, rule.symbols)
                   for rule in self._loader.rules.driver)

    def _undefined(self, wheel: WheelFacts, file: ElfFacts, names: list[str]) -> Finding:
        owner = self._owners.get(file.path, wheel)
        shown = ", ".join(demangle(name) for name in names[:NAMES_SHOWN])
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        number = "F5" if owner.name in SIBLINGS else "F4"
        return _finding("undefined-symbol", number, owner, file,
                        f"{file.path} lacks {len(names)} symbols: {shown}{more}",
                        "lock the torch (or other library) that this wheel was built against",
                        expected=shown, found="nobody defines them")


def _too_new(loader: Loader, owners: dict[str, WheelFacts], base: BaseFacts
             ) -> Iterator[Finding]:
    """Find symbol versions (GLIBC_2.38) that the base's own libraries do not have."""
    offered = {library.soname: set(library.defined_versions) for library in base.libraries}
    for path in sorted(loader.files):
        file = loader.files[path]
        for library, versions in file.needed_versions:
            lacking = sorted(set(versions) - offered.get(library, set(versions)))
            own = any(one.soname == library for one in loader.files.values()) if lacking else False
            if lacking and not own:
                yield _finding(
                    "symbol-version", "F6", owners[path], file,
                    f"{path} asks {library} for {', '.join(lacking)}", "take a newer base, or a "
                    "wheel for an older glibc", expected=", ".join(lacking),
                    found=f"glibc {base.glibc}")


def _finding(code: str, number: str, wheel: WheelFacts, file: ElfFacts, what: str,
             next_step: str, *, severity: Severity = Severity.ERROR, expected: str = "",
             found: str = "") -> Finding:
    return Finding(code, number, what, next_step, severity, wheel.file, file.path, expected,
                   found)


def _excused(finding: Finding, policy: Rules) -> Finding:
    """Turn an error of a file that may fail into a note with the reason."""
    rule = policy.excuse(finding.file)
    if rule is None or finding.severity is not Severity.ERROR:
        return finding
    return Finding(finding.code, finding.number, f"{finding.what}; {rule.reason}", rule.link,
                   Severity.NOTE, finding.wheel, finding.file, finding.expected, finding.found)
