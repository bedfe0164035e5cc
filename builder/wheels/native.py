"""The compiled part of a cell's patches on a package's source archive.

The same reader, the same rules and the same verdicts as for patches on wheels: only the tree is
another one, and only files that are compiled count. One pass reads the archive, since its members
cannot be found without inflating all that stands before them.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from builder.errors import PatchError
from builder.patches.apply import Blob, Layered
from builder.patches.diff import parse_diff
from builder.patches.diffs import digest_of
from builder.patches.filepatch import FilePatch
from builder.patches.scope import Scope, native_scope
from builder.patches.status import FATAL, Candidate, Standing, Verdict, judge_one
from builder.patches.wheel_tree import MEMBER_LIMIT
from builder.tarball import TAR_FAULTS, BoundedInfo, parents
from builder.wheels.order import AppliedPatch


@dataclass(frozen=True)
class NativePatches:
    """A series on the sources: what changes, which patches apply, and the verdict on each."""

    changes: Mapping[str, Blob | None] = field(default_factory=dict)
    applied: tuple[AppliedPatch, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


class SourceTree:
    """The members of a source archive that a series asks for, by path below its top folder."""

    def __init__(self, files: Mapping[str, Blob], names: frozenset[str]) -> None:
        """Take the contents that were read, and the names of all members."""
        self._files = files
        self._folders = frozenset(folder for name in names for folder in parents(name))

    def read(self, path: str) -> Blob | None:
        """Return a file, None where the archive has none."""
        return self._files.get(path)

    def is_folder(self, path: str) -> bool:
        """Say whether files lie below ``path``."""
        return path in self._folders


def compiled_files(candidate: Candidate) -> tuple[FilePatch, ...]:
    """Return the files of a patch that are compiled; none where its bytes cannot be had.

    Raises PatchError for a damaged diff.
    """
    if candidate.diff is None:
        return ()
    return _scope(candidate, parse_diff(candidate.diff, candidate.id)).files


def native_patches(source: Path, series: Sequence[Candidate]) -> NativePatches:
    """Apply the compiled part of a series to an archive; raises PatchError where it is required.

    Patches without compiled files are no part of the result.
    """
    native = [each for each in series if compiled_files(each)]
    if not native:
        return NativePatches()
    wanted = {path for each in native for file in compiled_files(each) for path in file.paths}
    tree = read_sources(source, frozenset(
        {*wanted, *(parent for path in wanted for parent in parents(path))}))
    done, verdicts, applied = Layered(tree), [], []
    for each in native:
        verdict, changes = judge_one(each, partial(_scope, each), tree, done)
        verdicts.append(verdict)
        done.add(changes)
        if verdict.standing is Standing.APPLIES:
            assert each.diff is not None
            applied.append(AppliedPatch(each.id, each.tag, digest_of(each.diff), tuple(
                file.new for file in compiled_files(each))))
    _require(source, native, verdicts)
    return NativePatches(done.changes, tuple(applied), tuple(verdicts))


def _scope(candidate: Candidate, files: Sequence[FilePatch]) -> Scope:
    return native_scope(files, candidate.include, candidate.exclude)


def _require(source: Path, native: Sequence[Candidate], verdicts: Sequence[Verdict]) -> None:
    fatal = [verdict for each, verdict in zip(native, verdicts, strict=True)
             if each.required and verdict.standing in FATAL]
    if fatal:
        raise PatchError("a required patch does not apply to the sources\n"
                         + "\n".join(verdict.line for verdict in fatal), where=source.name,
                         next_step="restrict the patch to other versions (`versions`), or mark it "
                         "optional (`required = false`)")


def read_sources(source: Path, wanted: frozenset[str]) -> SourceTree:
    """Read an archive once, and keep the members that are wanted; raises PatchError if damaged."""
    files: dict[str, Blob] = {}
    names: set[str] = set()
    try:
        with tarfile.open(source, "r:" if source.suffix == ".tar" else "r:gz",
                          tarinfo=BoundedInfo) as archive:
            for member, path in _members(archive):
                names.add(path)
                if path in wanted:
                    files[path] = _read(archive, member, path)
    except (OSError, *TAR_FAULTS) as error:
        raise PatchError(f"the source archive cannot be read: {error}", where=source.name,
                         next_step="remove it from the cache, and run the same command again"
                         ) from error
    return SourceTree(files, frozenset(names))


def _members(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, str]]:
    """Yield the regular files with their paths below the archive's one top folder."""
    for member in archive:
        if member.isreg():
            yield member, member.name.removeprefix("./").partition("/")[2]


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> Blob:
    if member.size > MEMBER_LIMIT:
        raise PatchError(f"{path} is too large to patch", where=path,
                         next_step="exclude the path (`exclude`)")
    stream = archive.extractfile(member)
    assert stream is not None
    return Blob(stream.read(), bool(member.mode & 0o111))
