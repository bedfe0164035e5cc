"""Whether a wheel has what a patch wants though the patch fits neither way: upstream went on.

Strict on purpose, for a superseded patch is dropped without failing anything: every hunk must be
in already, or its new lines must stand together in the file and its old ones must be gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.patches.apply import Image, Tree
from builder.patches.filepatch import Change, FilePatch, Hunk

_SLACK_LINES = 12  # that upstream may have put between the new lines of one hunk


def is_met(files: Sequence[FilePatch], tree: Tree) -> bool:
    """Say whether the tree does what every file of the patch wants."""
    return all(_is_file_met(file, tree) for file in files)


def _is_file_met(file: FilePatch, tree: Tree) -> bool:
    there = tree.read(file.new)
    match file.change:
        case Change.DELETE:
            return there is None
        case Change.CREATE:
            return there is not None
        case Change.RENAME if tree.read(file.old) is not None:
            return False
        case _:
            return there is not None and all(_is_hunk_met(hunk, there.data)
                                             for hunk in file.hunks)


def _is_hunk_met(hunk: Hunk, data: bytes) -> bool:
    image = Image(data)
    if image.find(hunk.reversed()) is not None:
        return True
    added, removed = (_telling(hunk, sign) for sign in "+-")
    lines = [line.strip() for line in image.lines]
    present = set(lines)
    gone = not any(line in present for line in removed if line not in added)
    return gone and bool(added or removed) and _stand_together(added, lines)


def _telling(hunk: Hunk, sign: str) -> list[bytes]:
    """Return the lines of one sign that say something: not blank, not a lone bracket."""
    found = (text.strip() for kind, text in hunk.lines if kind == sign)
    return [line for line in found if any(char not in b"()[]{},:" for char in line)]


def _stand_together(wanted: Sequence[bytes], lines: Sequence[bytes]) -> bool:
    """Say whether the lines come in this order within a narrow window."""
    if not wanted:
        return True
    reach = 2 * len(wanted) + _SLACK_LINES
    starts = [at for at, line in enumerate(lines) if line == wanted[0]]
    return any(_in_order(wanted, lines[at:at + reach]) for at in starts)


def _in_order(wanted: Sequence[bytes], lines: Sequence[bytes]) -> bool:
    following = iter(lines)
    return all(line in following for line in wanted)
