"""A wheel's sources as a tree for patches; only the touched members are read."""

from __future__ import annotations

import lzma
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from builder.errors import PatchError, command
from builder.patches.apply import Blob
from builder.tarball import parents

MEMBER_LIMIT = 64_000_000  # no source is as large; a library is, and no patch may want one


class WheelTree:
    """The members of an open wheel that lie in site-packages, without its ``.dist-info``."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        """Take the archive's directory; nothing is read yet."""
        self._archive = archive
        self._members = {item.filename: item for item in archive.infolist()
                         if not item.is_dir() and not _is_special(item.filename)}
        self._folders: frozenset[str] | None = None
        self._read: dict[str, Blob] = {}

    @cached_property
    def packages(self) -> frozenset[str]:
        """Return the top folders."""
        return frozenset(name.partition("/")[0] for name in self._members if "/" in name)

    def read(self, path: str) -> Blob | None:
        """Return a member; raises PatchError for one that is no source."""
        item = self._members.get(path)
        if item is None:
            return None
        if item.file_size > MEMBER_LIMIT:
            raise PatchError(f"{path} is too large to patch", where=path,
                             next_step="exclude the path (`exclude`)")
        if path not in self._read:
            mode = item.external_attr >> 16
            self._read[path] = Blob(self._archive.read(item),
                                    stat.S_ISREG(mode) and bool(mode & 0o111))
        return self._read[path]

    def is_folder(self, path: str) -> bool:
        """Say whether members lie below ``path``."""
        if self._folders is None:
            self._folders = frozenset(folder for name in self._members for folder in parents(name))
        return path in self._folders


@contextmanager
def open_tree(wheel: Path) -> Iterator[WheelTree]:
    """Open a wheel's sources for the block; raises PatchError where zip file or member is damaged.

    A wheel may be damaged as it was published, with the hash that is locked.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield WheelTree(archive)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError,
            OSError) as error:
        raise PatchError(f"the wheel cannot be read: {error}", where=wheel.name,
                         next_step=f"fetch it again: {command('fetch', 'CELL')}") from error


def _is_special(name: str) -> bool:
    return name.partition("/")[0].endswith((".dist-info", ".data"))
