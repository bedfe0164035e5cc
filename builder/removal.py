"""The one place that removes files: only below a folder of ours, and never through a link.

Every call names the folder that it may remove from (``within``). A path outside of it, or one that
leads through a symbolic link, is refused before anything is touched: what a link leads to may be
the user's own.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from builder.errors import UsageError


def remove_file(path: Path, within: Path) -> None:
    """Remove a file or a link itself; nothing happens where there is none.

    Raises UsageError for a path that is not ``within``, leads through a link, or is a folder.
    """
    _check(path, within)
    if path.is_dir() and not path.is_symlink():
        raise _refused(path, "it is a folder, where a file was expected")
    path.unlink(missing_ok=True)


def remove_tree(path: Path, within: Path) -> None:
    """Remove a folder with all that it holds; links in it are removed, never followed.

    Files that vanish meanwhile, or cannot be removed, are passed over. Raises UsageError for a
    path that is not ``within``, leads through a link, or is one.
    """
    _check(path, within)
    if path.is_symlink():
        raise _refused(path, "it is a symbolic link")
    shutil.rmtree(path, ignore_errors=True)


def remove_empty_folder(path: Path, within: Path) -> None:
    """Remove a folder that holds nothing; one that does, or is gone, is left as it is."""
    _check(path, within)
    if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()


def _check(path: Path, within: Path) -> None:
    parts = path.parts[len(within.parts):]
    if path.parts[:len(within.parts)] != within.parts or not parts or ".." in parts:
        raise _refused(path, f"it does not lie in {within}")
    folder = within
    for part in parts[:-1]:
        folder = folder / part
        if folder.is_symlink():
            raise _refused(path, f"{folder} is a symbolic link")


def _refused(path: Path, reason: str) -> UsageError:
    return UsageError(f"nothing was removed: {reason}", where=str(path),
                      next_step="look at that folder; a cache must not contain links")
