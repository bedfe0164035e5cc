"""Which files of a diff concern a wheel, and where they lie in it.

A repository's ``vllm/…`` (or ``src/transformers/…``) is the wheel's ``vllm/…``. Tests and
documents are left out, as their hunks fail for reasons that no server has; what is compiled
cannot be patched in a wheel at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from builder.patches.filepatch import FilePatch

EXCLUDED_BY_DEFAULT = ("tests/*", "test/*", "*/tests/*", "docs/*", "doc/*", "examples/*",
                       "benchmarks/*", ".*", "*.md", "*.rst")
COMPILED = ("csrc/*", "*/csrc/*", "cmake/*", "CMakeLists.txt", "*/CMakeLists.txt", "setup.py",
            "setup.cfg", "pyproject.toml", "rust/*", "Cargo.toml", "*.cu", "*.cuh", "*.cpp",
            "*.cc", "*.c", "*.h", "*.hpp", "*.cmake", "*.rs", "*.pyx")


@dataclass(frozen=True)
class Scope:
    """A diff taken apart for one wheel: ``files`` have the wheel's own paths."""

    files: tuple[FilePatch, ...]
    compiled: tuple[str, ...]
    left_out: tuple[str, ...]


def scope_of(files: Sequence[FilePatch], packages: frozenset[str], include: Sequence[str] = (),
             exclude: Sequence[str] = ()) -> Scope:
    """Sort the files of a diff for a wheel whose top folders are ``packages``.

    With ``include`` only what its globs match remains; ``exclude`` adds to the default. A glob's
    ``*`` matches slashes. A rename counts with both its paths.
    """
    chosen: list[FilePatch] = []
    compiled: list[str] = []
    left_out: list[str] = []
    for file in files:
        if all(is_excluded(path, include, exclude) for path in file.paths):
            left_out += file.paths
        elif any(_matches(path, COMPILED) for path in file.paths):
            compiled += file.paths
        elif mapped := _mapped(file, packages):
            chosen.append(mapped)
        else:
            left_out += file.paths
    return Scope(tuple(chosen), tuple(compiled), tuple(left_out))


def whole_scope(files: Sequence[FilePatch], include: Sequence[str] = (), exclude: Sequence[str] = ()
                ) -> Scope:
    """Sort the files of a diff for a checkout, where all that is not left out can be patched."""
    excluded = [file for file in files
                if all(is_excluded(path, include, exclude) for path in file.paths)]
    return Scope(tuple(file for file in files if file not in excluded), (),
                 tuple(path for file in excluded for path in file.paths))


def native_scope(files: Sequence[FilePatch], include: Sequence[str] = (),
                 exclude: Sequence[str] = ()) -> Scope:
    """Sort the files of a diff for a source archive: ``files`` are those that are compiled.

    Python files are left out: they change in the published wheel itself.
    """
    chosen = [file for file in files
              if not all(is_excluded(path, include, exclude) for path in file.paths)
              and any(_matches(path, COMPILED) for path in file.paths)]
    return Scope(tuple(chosen), (),
                 tuple(path for file in files if file not in chosen for path in file.paths))


def is_excluded(path: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Say whether a path is left out: by ``exclude``, or by default unless ``include`` names it."""
    if _matches(path, exclude):
        return True
    return not _matches(path, include) if include else _matches(path, EXCLUDED_BY_DEFAULT)


def _matches(path: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(path, glob) for glob in globs)


def _mapped(file: FilePatch, packages: frozenset[str]) -> FilePatch | None:
    """Return the file under the wheel's paths; None where it is no part of any of them.

    A rename that leaves the packages, or enters them, is kept: the wheel has no such file, which
    is then a conflict and not silence.
    """
    old, new = (path.removeprefix("src/") for path in (file.old, file.new))
    if not {old.partition("/")[0], new.partition("/")[0]} & packages:
        return None
    return replace(file, old=old, new=new)
