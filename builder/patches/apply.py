"""Applies a parsed diff to a tree in memory: exactly what ``git apply`` does, whole or not at all.

Hunks may lie elsewhere than they say (git's search order), but every line they expect must be
there, byte for byte: no fuzz. Renames, copies and deletions read the tree as it was before.
Nothing is written: the result is a set of changes, empty where there is any conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from builder import limits
from builder.errors import PatchError
from builder.patches.filepatch import Change, FilePatch, Hunk
from builder.tarball import parents

RESULT_LIMIT = 256_000_000  # bytes of all changed files; copies cost a diff next to nothing


@dataclass(frozen=True)
class Blob:
    """A file's bytes and whether it may be executed."""

    data: bytes
    executable: bool = False


class Tree(Protocol):
    """What a patch is applied to; paths as in the diff."""

    def read(self, path: str) -> Blob | None:
        """Return a file, None where there is none."""

    def is_folder(self, path: str) -> bool:
        """Say whether files lie below ``path``."""


@dataclass(frozen=True)
class Conflict:
    """Why one file, or one hunk of it, cannot be applied.

    ``line`` (one-based, 0 for a whole file) is where the hunk says it belongs; ``expected`` are
    the lines that it needs, ``found`` the lines that are there.
    """

    path: str
    reason: str
    hunk: str = ""
    line: int = 0
    expected: tuple[str, ...] = ()
    found: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        lines = [f"{place}: {self.reason}" + (f" ({self.hunk})" if self.hunk else "")]
        lines += [f"  expected | {text}" for text in self.expected]
        lines += [f"  found    | {text}" for text in self.found]
        return "\n".join(lines)


@dataclass(frozen=True)
class Applied:
    """What a patch came to: new contents by path (None: deleted), or conflicts and no changes.

    ``moved`` counts the lines by which hunks lie elsewhere than they say.
    """

    changes: Mapping[str, Blob | None] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    moved: int = 0


class Layered:
    """A tree with changes on top; the tree below stays as it is."""

    def __init__(self, below: Tree, changes: Mapping[str, Blob | None] | None = None) -> None:
        """Put ``changes`` over ``below``."""
        self._below, self.changes = below, dict(changes or {})

    def read(self, path: str) -> Blob | None:
        """Return the changed file, or the one below."""
        return self.changes[path] if path in self.changes else self._below.read(path)

    def is_folder(self, path: str) -> bool:
        """Say whether files lie below ``path``; a folder that was emptied still counts."""
        return self._below.is_folder(path) or any(
            blob and name.startswith(f"{path}/") for name, blob in self.changes.items())

    def add(self, changes: Mapping[str, Blob | None]) -> None:
        """Put the changes of a whole patch on top."""
        self.changes.update(changes)


def apply_files(files: Sequence[FilePatch], tree: Tree) -> Applied:
    """Apply all files of one diff to ``tree``; either all changes come back, or none.

    Raises PatchError for what may never be applied: a symbolic link, a submodule, a binary hunk,
    a file touched twice, a result beyond all measure.
    """
    _refuse(files)
    gone = {file.old for file in files if file.change in (Change.DELETE, Change.RENAME)}
    written: dict[str, Blob | None] = {}
    conflicts: list[Conflict] = []
    moved = total = 0
    for file in files:
        patched = _Patched(file, tree, gone)
        conflicts += patched.conflicts
        moved += patched.moved
        total += len(patched.result.data)
        if total > RESULT_LIMIT:
            raise PatchError(f"the patch would write more than {RESULT_LIMIT // limits.MB} MB",
                             where=file.new, next_step="include fewer paths of it (`include`)")
        if file.change is not Change.DELETE:
            written[file.new] = patched.result
    changes = {**dict.fromkeys(gone), **written}
    conflicts += _misplaced(written, gone, tree)
    return Applied({}, tuple(conflicts)) if conflicts else Applied(changes, moved=moved)


def _refuse(files: Sequence[FilePatch]) -> None:
    sources: set[str] = set()
    targets: set[str] = set()
    for file in files:
        reason = file.why_refused()
        consumed = file.change in (Change.MODIFY, Change.DELETE, Change.RENAME)
        if (consumed and file.old in sources) or \
                (file.change is not Change.DELETE and file.new in targets):
            reason = "is changed twice"
        if reason:
            raise PatchError(f"{file.new} {reason}", where=file.new,
                             next_step="exclude the path (`exclude`), or remove the patch")
        sources |= {file.old} if consumed else set()
        targets |= set() if file.change is Change.DELETE else {file.new}


def _misplaced(written: Mapping[str, Blob | None], gone: set[str], tree: Tree
               ) -> Iterator[Conflict]:
    """Yield the files that would stand where a folder is, or in a file as if it were one."""
    for path in written:
        if tree.read(path) is None and tree.is_folder(path):
            yield Conflict(path, "is a folder in the wheel")
        for parent in parents(path):
            if parent in written or (parent not in gone and tree.read(parent) is not None):
                yield Conflict(path, f"{parent} is a file")


class _Patched:
    """One file after its part of the diff: its bytes, or the conflicts."""

    def __init__(self, file: FilePatch, tree: Tree, gone: set[str]) -> None:
        self.moved, self.result = 0, Blob(b"")
        self.conflicts = list(_unready(file, tree, gone))
        if self.conflicts:
            return
        before = Blob(b"") if file.change is Change.CREATE else tree.read(file.old)
        assert before is not None
        data = self._text(file, before.data)
        if file.change is Change.DELETE and data and not self.conflicts:
            self.conflicts.append(Conflict(file.old, "is to be deleted, but its contents differ",
                                           found=_show(data.splitlines(keepends=True)[:5])))
        self.result = Blob(data, file.new_mode == "100755" if file.new_mode
                           else before.executable)

    def _text(self, file: FilePatch, data: bytes) -> bytes:
        if not file.hunks:
            return data
        image = Image(data)
        for hunk in file.hunks:
            found = image.find(hunk)
            if found is None:
                self.conflicts.append(image.conflict(file.old, hunk))
                continue  # go on, to name every hunk that fails
            self.moved += abs(found - image.hint(hunk))
            image.replace(found, hunk)
        return b"".join(image.lines)


def _unready(file: FilePatch, tree: Tree, gone: set[str]) -> Iterator[Conflict]:
    if file.change is not Change.CREATE and tree.read(file.old) is None:
        yield Conflict(file.old, "does not exist")
    if file.change in (Change.CREATE, Change.RENAME, Change.COPY) and file.new not in gone \
            and tree.read(file.new) is not None:
        yield Conflict(file.new, "exists already")


class Image:
    """The lines of a file while its hunks are applied one by one."""

    def __init__(self, data: bytes) -> None:
        found = data.split(b"\n")
        last = found.pop()
        self.lines = [line + b"\n" for line in found] + ([last] if last else [])
        self._fresh = [True] * len(self.lines)  # no hunk may touch what another one has written

    def hint(self, hunk: Hunk) -> int:
        """Return the line, zero-based, at which git begins to look."""
        if hunk.old_start <= 1:
            return 0
        if not hunk.ends_in_context:
            return max(0, min(len(self.lines) - len(hunk.old), len(self.lines)))
        return min(max(hunk.new_start - 1, 0), len(self.lines))

    def find(self, hunk: Hunk) -> int | None:
        """Return where the hunk's lines are: at the hint, else the nearest, later ones first.

        A hunk for the first line must match there, one that ends without context at the end.
        """
        old = hunk.old
        if len(old) > len(self.lines):
            return None
        last = len(self.lines) - len(old)
        start = self.hint(hunk)
        if hunk.old_start <= 1 or not hunk.ends_in_context:
            only = 0 if hunk.old_start <= 1 else last
            return only if (hunk.ends_in_context or only == last) and self._fits(only, old) \
                else None
        begins = [at for at, line in enumerate(self.lines[:last + 1]) if not old or line == old[0]]
        begins.sort(key=lambda at: (abs(at - start), at < start))
        return next((at for at in begins if self._fits(at, old)), None)

    def _fits(self, at: int, old: Sequence[bytes]) -> bool:
        end = at + len(old)
        return self.lines[at:end] == old and all(self._fresh[at:end])

    def replace(self, at: int, hunk: Hunk) -> None:
        """Put the hunk's new lines in the place of its old ones."""
        old, new = hunk.old, hunk.new
        self.lines[at:at + len(old)] = new
        self._fresh[at:at + len(old)] = [False] * len(new)

    def conflict(self, path: str, hunk: Hunk) -> Conflict:
        """Say what the hunk needs and what is there, from the first line that differs."""
        at, old = self.hint(hunk), hunk.old
        found = self.lines[at:at + len(old)]
        same = next((index for index, (one, other) in enumerate(zip(old, found, strict=False))
                     if one != other), min(len(old), len(found)))
        return Conflict(path, "hunk does not apply", hunk.header, at + 1 + same,
                        _show(old[same:same + 3]), _show(found[same:same + 3]))


def _show(lines: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(line.decode("utf-8", "replace").rstrip("\n")[:200] for line in lines)
