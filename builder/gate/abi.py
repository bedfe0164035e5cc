"""Will every extension load? Libraries, symbols and symbol versions, without running anything.

Each extension is loaded as a running vLLM would load it (``rules.toml`` has the order), with all
symbols bound, in a process that has loaded nothing else of the kind; the findings are the errors
that the real loader reports. Extensions are what Python imports. Other libraries are checked only
where an extension needs them, since the rest may be loaded by hand, or never.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import cxxfilt

from builder.binaries.facts import BaseFacts, ElfFacts, WheelFacts
from builder.gate.loader import Loaded, Loader, Missing, Process
from builder.gate.rules import Rules, rules
from builder.locking.findings import Finding, FindingCode, Severity, counted

# What Python imports; the first group is empty for abi3, which any later Python accepts.
EXTENSION = re.compile(r"\.(?:(cpython-\d+)[a-z]*-[\w-]+|abi3)\.so$")
NAMES_SHOWN = 4
# Repeated back references double a demangled name with every few characters: 240 characters
# become 250 MB. Honest names stay below both limits.
MAX_MANGLED = 1000
MAX_BACK_REFERENCES = 20
_BACK_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")


@dataclass(frozen=True)
class Target:
    """What the closure is to run on: ``python`` is ``3.11``, ``machine`` ``aarch64``.

    Where the closure is not ``whole``, a library or symbol that an absent wheel may bring is not
    reported. Where the base is not known (``has_base``), the same holds for what it may bring.
    """

    python: str
    machine: str
    cuda: bool
    whole: bool = True
    has_base: bool = True


@dataclass
class _Problem:
    """What one file lacks, and the extensions that cannot be imported because of it."""

    file: ElfFacts
    missing: str
    affected: list[str] = field(default_factory=list)


def check_abi(wheels: Sequence[WheelFacts], base: BaseFacts | None, target: Target,
              known: Rules | None = None) -> tuple[Finding, ...]:
    """Return what keeps the closure's extensions from loading on the base.

    Without a base, only libraries and symbols are judged whose wheel is known (``[[owner]]`` in
    ``rules.toml``) and given.
    """
    policy = known or rules()
    loader = Loader(wheels, base, policy, driver=target.cuda)
    owners = {elf.path: wheel for wheel in wheels for elf in wheel.elves}
    check = _Check(loader, owners, target)
    for path in sorted(loader.files):
        if EXTENSION.search(path) or policy.loads_operators(path):
            check.extension(loader.files[path])
    findings = [*check.findings(), *_too_new(loader, owners, base, check.users)]
    versions = {wheel.file: wheel.version for wheel in wheels}
    torch = next((wheel.version for wheel in wheels if wheel.name == "torch"), "")
    return tuple(_excused(finding, policy, versions.get(finding.wheel, ""), torch)
                 for finding in findings)


class _Check:
    """Loads extensions one by one, each in the process that its rule asks for."""

    def __init__(self, loader: Loader, owners: dict[str, WheelFacts], target: Target) -> None:
        self._loader, self._owners, self._target = loader, owners, target
        self._processes: dict[tuple[str, ...], Process] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._foreign: list[Finding] = []
        self._libraries: dict[tuple[str, str], _Problem] = {}
        self._symbols: dict[str, tuple[_Problem, list[str]]] = {}
        given = {wheel.name for wheel in owners.values()}
        self._owned = [rule for rule in loader.rules.owner if rule.wheel in given]
        self._complete = target.whole and target.has_base
        self.users: dict[str, list[str]] = {}

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong with the extensions that were loaded, each problem once."""
        yield from self._foreign
        yield from map(self._missing, self._libraries.values())
        yield from (self._undefined(problem, names) for problem, names in self._symbols.values())

    def extension(self, file: ElfFacts) -> None:
        """Load one extension and keep what is wrong with it."""
        if other := self._other_target(file):
            self._foreign.append(_finding(
                FindingCode.WRONG_EXTENSION, self._owners[file.path], file,
                f"{file.path} is built for {other}, so nothing can import it here",
                "no action unless it is needed: then lock a wheel for this Python and processor",
                severity=Severity.NOTE, found=other,
                expected=f"Python {self._target.python}, {self._target.machine}"))
            return
        loaded = self._load(file)
        for member in loaded.scope:
            self.users.setdefault(member.path, []).append(file.path)
        missing = [one for one in loaded.missing if self._judged(one.library)]
        for one in missing:
            self._keep_library(one, file)
        if not missing:
            self._keep_symbols(file, loaded)

    def _judged(self, library: str) -> bool:
        """Say whether neither an absent wheel nor an unknown base can bring a missing library."""
        return (self._complete or any(rule.has_library(library) for rule in self._owned)
                or (self._target.has_base and library in self._loader.rules.debian))

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
        return self._loader.load(file, process.copy())

    def _keep_library(self, missing: Missing, extension: ElfFacts) -> None:
        problem = self._libraries.setdefault((missing.file.path, missing.library),
                                             _Problem(missing.file, missing.library))
        if extension.path not in problem.affected:
            problem.affected.append(extension.path)

    def _keep_symbols(self, extension: ElfFacts, loaded: Loaded) -> None:
        process = self._processes[self._loader.rules.before(extension.path)]
        scope = [*process.visible, *loaded.scope]
        for file in loaded.fresh:
            names = [symbol.name for symbol in file.undefined if not symbol.weak
                     and not any(symbol.name in self._defined(other) for other in scope)]
            names = [name for name in names if not self._from_driver(name, loaded)]
            if not self._complete:  # of the rest, nobody knows which wheel would define them
                names = [name for name in names
                         if any(rule.has_symbol(name) for rule in self._owned)]
            if names:
                problem, _ = self._symbols.setdefault(file.path, (_Problem(file, ""), names))
                problem.affected.append(extension.path)

    def _defined(self, file: ElfFacts) -> Collection[str]:
        if file.path not in self._names:
            self._names[file.path] = frozenset(symbol.name for symbol in file.defined)
        return self._names[file.path]

    def _from_driver(self, name: str, loaded: Loaded) -> bool:
        return any(rule.library in loaded.driver and fnmatchcase(name, rule.symbols)
                   for rule in self._loader.rules.driver)

    def _owner(self, problem: _Problem) -> WheelFacts:
        """Return the wheel to blame: the file's own, or for a base's file that of its user."""
        return self._owners.get(problem.file.path) or self._owners[problem.affected[0]]

    def _missing(self, problem: _Problem) -> Finding:
        package = self._loader.rules.debian.get(problem.missing)
        step = (f"add the Debian package {package} to the base" if package else
                "lock the wheel that contains it, or another build of this wheel")
        nowhere = ("which neither a wheel nor the base has" if self._target.has_base
                   else "which no given wheel has")
        return _finding(FindingCode.MISSING_LIBRARY, self._owner(problem), problem.file,
                        f"{problem.file.path} needs {problem.missing}, {nowhere}"
                        f"{_consequence(problem)}", step, expected=problem.missing,
                        found="nothing", affected=problem.affected)

    def _undefined(self, problem: _Problem, names: Sequence[str]) -> Finding:
        shown = ", ".join(demangle(name) for name in names[:NAMES_SHOWN])
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        return _finding(FindingCode.UNDEFINED_SYMBOL, self._owner(problem), problem.file,
                        f"{problem.file.path} needs {counted(len(names), 'symbol')} that nothing "
                        f"defines: {shown}{more}{_consequence(problem)}",
                        "lock the torch (or other library) that this wheel was built against",
                        expected=shown, found="nothing defines them", affected=problem.affected)


def _consequence(problem: _Problem) -> str:
    """Name one extension that cannot be imported, where it is not the file itself."""
    others = [path for path in problem.affected if path != problem.file.path]
    if not others:
        return ""
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"; {others[0]}{more} cannot be imported"


def _too_new(loader: Loader, owners: dict[str, WheelFacts], base: BaseFacts | None,
             users: dict[str, list[str]]) -> Iterator[Finding]:
    """Find symbol versions (GLIBC_2.38) that the base's own libraries do not define."""
    if base is None:
        return
    offered = {library.soname: set(library.defined_versions) for library in base.libraries}
    brought = {file.soname for file in loader.files.values()}
    for path in sorted(loader.files):
        file = loader.files[path]
        for library, versions in file.needed_versions:
            absent = sorted(set(versions) - offered.get(library, set(versions)))
            if absent and library not in brought:
                yield _finding(
                    FindingCode.SYMBOL_VERSION, owners[path], file,
                    f"{path} needs {', '.join(absent)} of {library}, and the base's is older",
                    "use a newer base, or a wheel for an older glibc", expected=", ".join(absent),
                    found=f"glibc {base.glibc}", affected=users.get(path, ()))


def _finding(code: FindingCode, wheel: WheelFacts, file: ElfFacts, what: str, next_step: str, *,
             severity: Severity = Severity.ERROR, expected: str = "", found: str = "",
             affected: Sequence[str] = ()) -> Finding:
    return Finding(code, what, next_step, severity, wheel.file, file.path, expected, found,
                   tuple(affected))


def _excused(finding: Finding, policy: Rules, version: str, torch: str) -> Finding:
    """Turn an error of a file that may fail into a note with the reason."""
    rule = policy.excuse(finding.file, version, torch)
    if rule is None or finding.severity is not Severity.ERROR:
        return finding
    return replace(finding, what=f"{finding.what}; {rule.reason}", next_step=rule.link,
                   severity=Severity.NOTE)


def demangle(name: str) -> str:
    """Return a C++ name as people write it: ``at::cuda::getCurrentCUDABlasHandle()``.

    The host's C++ library does it. Where there is none, or where the name could expand without
    limit, it stays as the linker has it.
    """
    if len(name) > MAX_MANGLED or len(_BACK_REFERENCE.findall(name)) > MAX_BACK_REFERENCES:
        return name[:MAX_MANGLED]
    try:
        return str(cxxfilt.demangle(name))
    except (cxxfilt.Error, OSError):
        return name
