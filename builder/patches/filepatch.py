"""What a diff says, file by file and hunk by hunk, as frozen values; ``diff`` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from builder.errors import PatchError

REGULAR_MODES = frozenset({"100644", "100755"})


class Change(StrEnum):
    """What a diff does to one file."""

    MODIFY = "modify"
    CREATE = "create"
    DELETE = "delete"
    RENAME = "rename"
    COPY = "copy"


@dataclass(frozen=True)
class Hunk:
    """One hunk: where it says it is, and its lines as ``(sign, bytes with their newline)``.

    ``old_start`` and ``new_start`` are one-based; 0 stands for the place before a first line.
    """

    old_start: int
    new_start: int
    lines: tuple[tuple[str, bytes], ...]
    header: str

    @property
    def old(self) -> list[bytes]:
        """Return the lines that it expects."""
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[bytes]:
        """Return the lines that it leaves."""
        return [text for sign, text in self.lines if sign != "-"]

    @property
    def ends_in_context(self) -> bool:
        """Say whether unchanged lines follow the last change; otherwise it ends its file."""
        return self.lines[-1][0] == " "

    def reversed(self) -> Hunk:
        """Return the hunk that undoes this one."""
        swap = {"+": "-", "-": "+", " ": " "}
        return replace(self, old_start=self.new_start, new_start=self.old_start,
                       lines=tuple((swap[sign], text) for sign, text in self.lines))


@dataclass(frozen=True)
class FilePatch:
    """What a diff does to one file; paths are relative to the repository's root.

    ``old`` and ``new`` are equal but for renames and copies. Modes are git's, empty where the
    diff does not tell. ``binary`` hunks are not read: only a file that is left out may have them.
    """

    change: Change
    old: str
    new: str
    old_mode: str = ""
    new_mode: str = ""
    hunks: tuple[Hunk, ...] = ()
    binary: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the path, or both where they differ."""
        return (self.old,) if self.old == self.new else (self.old, self.new)

    def why_refused(self) -> str:
        """Say why the file cannot be patched exactly in a wheel, or nothing when it can."""
        if self.binary:
            return "is changed by a binary hunk"
        for mode in (self.old_mode, self.new_mode):
            if mode and mode not in REGULAR_MODES:
                kind = {"120000": "a symbolic link", "160000": "a submodule"}
                return f"is {kind.get(mode, f'of mode {mode}')}"
        return ""

    def reversed(self) -> FilePatch:
        """Return what undoes this; raises PatchError for a copy, of which git keeps no source."""
        if self.change is Change.COPY:
            raise PatchError("a patch that copies a file cannot be reverted exactly",
                             where=self.new,
                             next_step="provide the revert as a diff of its own (`file`)")
        opposite = {Change.CREATE: Change.DELETE, Change.DELETE: Change.CREATE}
        return FilePatch(opposite.get(self.change, self.change), self.new, self.old,
                         self.new_mode, self.old_mode,
                         tuple(hunk.reversed() for hunk in self.hunks), self.binary)


def reverse(files: Sequence[FilePatch]) -> tuple[FilePatch, ...]:
    """Return the patch that undoes ``files``."""
    return tuple(file.reversed() for file in files)
