"""What the dynamic loader would do, in its order, without running anything.

ld.so(8): a library that is already loaded is found by its SONAME; then come DT_RPATH of the file
and of those that loaded it (unless it has DT_RUNPATH), DT_RUNPATH of the file alone, and the
system's folders. Python loads an extension with RTLD_LOCAL: it sees the program's own symbols,
those loaded with RTLD_GLOBAL, and those of the libraries that it needs, directly or not.
"""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from builder.binaries.facts import BaseFacts, ElfFacts, WheelFacts
from builder.gate.rules import Rules


@dataclass(frozen=True)
class Missing:
    """A library that ``file`` needs and nothing has."""

    file: ElfFacts
    library: str


@dataclass
class Process:
    """A running program and what it has loaded.

    ``names`` maps a SONAME, or the name that a library was found by, to its file; ``paths`` are
    those of all loaded files, ``visible`` the files whose symbols everybody sees.
    """

    names: dict[str, ElfFacts] = field(default_factory=dict)
    visible: list[ElfFacts] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)

    def copy(self) -> Process:
        """Return a process in which more can be loaded without changing this one."""
        return Process(dict(self.names), self.visible, set(self.paths))


@dataclass(frozen=True)
class Loaded:
    """One load: every file of its scope in the loader's order, and what was not found.

    ``fresh`` are the files that this load brought in: their symbols are bound now.
    """

    scope: tuple[ElfFacts, ...]
    fresh: tuple[ElfFacts, ...]
    missing: tuple[Missing, ...]
    driver: frozenset[str]


class Loader:
    """The libraries of a closure and of its base."""

    def __init__(self, wheels: Sequence[WheelFacts], base: BaseFacts | None, rules: Rules,
                 *, driver: bool) -> None:
        """Index the files; ``driver`` says whether the host has the GPU driver's libraries."""
        self.files = {elf.path: elf for wheel in wheels for elf in wheel.elves
                      if elf.kind == "dyn"}
        self.rules = rules
        system = base.libraries if base else ()
        self._system = _system(system)
        self.programs = [elf for elf in system if "/bin/python3" in elf.path]
        self._driver = {rule.library for rule in rules.driver} if driver else set()

    def matching(self, patterns: Iterable[str]) -> list[ElfFacts]:
        """Return the files that match any of the patterns, sorted by path."""
        wanted = list(patterns)
        return [self.files[path] for path in sorted(self.files)
                if any(fnmatchcase(path, pattern) for pattern in wanted)]

    def process(self, before: Iterable[str] = ()) -> Process:
        """Return a Python that has loaded what matches ``before``, in that order."""
        process = Process()
        for program in self.programs:
            process.visible.extend(self.load(program, process).scope)
        if before:
            for rule in self.rules.visible:
                for library in self.matching([rule.pattern]):
                    process.visible.extend(self.load(library, process).scope)
        for pattern in before:
            for library in self.matching([pattern]):
                self.load(library, process)
        return process

    def load(self, file: ElfFacts, process: Process) -> Loaded:
        """Load a file and all that it needs, breadth first; the process remembers them."""
        scope, fresh, missing, driver = [file], [], [], set()
        seen = {file.path}
        queue: deque[tuple[ElfFacts, tuple[ElfFacts, ...]]] = deque([(file, ())])
        if file.path not in process.paths:  # a file is opened by its path: its name is no matter
            fresh.append(file)
        process.paths.add(file.path)
        if file.soname:
            process.names.setdefault(file.soname, file)
        while queue:
            current, loaders = queue.popleft()
            for library in current.needed:
                if library in self._driver:
                    driver.add(library)
                    continue
                target = process.names.get(library) or self._find(library, current, loaders)
                if target is None:
                    missing.append(Missing(current, library))
                    continue
                if library not in process.names:
                    process.names[library] = target
                    process.names.setdefault(_name(target), target)
                    if target.path not in process.paths:
                        fresh.append(target)
                    process.paths.add(target.path)
                if target.path not in seen:
                    seen.add(target.path)
                    scope.append(target)
                    queue.append((target, (*loaders, current)))
        return Loaded(tuple(scope), tuple(fresh), tuple(missing), frozenset(driver))

    def _find(self, library: str, file: ElfFacts, loaders: tuple[ElfFacts, ...]
              ) -> ElfFacts | None:
        for origin, entry in _search_path(file, loaders):
            path = posixpath.normpath(posixpath.join(_expand(entry, origin), library))
            if library_file := self.files.get(path):
                return library_file
        return self._system.get(library)


def _search_path(file: ElfFacts, loaders: tuple[ElfFacts, ...]) -> Iterable[tuple[str, str]]:
    """Return (folder of the file that has the entry, entry) in the loader's order."""
    if file.runpath:
        return [(posixpath.dirname(file.path), entry) for entry in file.runpath]
    chain = [file, *(loader for loader in reversed(loaders) if not loader.runpath)]
    return [(posixpath.dirname(one.path), entry) for one in chain for entry in one.rpath]


def _expand(entry: str, origin: str) -> str:
    return entry.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", origin or ".")


def _name(file: ElfFacts) -> str:
    return file.soname or posixpath.basename(file.path)


def _system(libraries: Iterable[ElfFacts]) -> Mapping[str, ElfFacts]:
    """Return what the base's loader finds by name."""
    by_name: dict[str, ElfFacts] = {}
    for elf in libraries:
        if not elf.interpreter or elf.soname:
            by_name.setdefault(_name(elf), elf)
            by_name.setdefault(posixpath.basename(elf.path), elf)
    return by_name
