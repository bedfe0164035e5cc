"""What was compiled on this machine, by key: complete, or not there at all.

A folder gets its name when all of it is written, so a run that is killed leaves nothing under a
key. Files are hashed again whenever they are taken; a damaged folder is removed and compiled anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from builder import console
from builder.errors import UsageError, VerdictError
from builder.files import sha256_file, write_text
from builder.indexes.settings import COMPILED
from builder.limits import SETTINGS_BYTES, read_file
from builder.locking.lock import LockedWheel
from builder.removal import remove_tree
from builder.store.content_store import Store
from builder.wheels.assemble import WheelRecord
from builder.wheels.order import Rebuilt

FOLDER = "compiled"
_FACTS, _FILES = "rebuilt.json", "files"


class Kept:
    """The compiled files and wheel records in a store."""

    def __init__(self, store: Store) -> None:
        """Nothing is read yet."""
        self._root = store.root
        self._folder = store.root / FOLDER

    def find(self, key: str, fits: Callable[[Rebuilt], bool] = lambda _given: True
             ) -> tuple[Rebuilt, Path] | None:
        """Return what was compiled under a key, and the folder of its files; None if not whole.

        What was seen to be damaged is removed, and so is a record for which ``fits`` says no: it
        would be in the way of every later compile. Raises UsageError where it cannot be read: it
        took hours, and may be whole.
        """
        folder = self._folder / key
        try:
            text = read_file(folder / _FACTS, SETTINGS_BYTES, "record of a compile")
            rebuilt = Rebuilt.model_validate_json(text)
            whole = rebuilt.key == key and fits(rebuilt) and all(
                sha256_file(folder / _FILES / file.path) == file.sha256 for file in rebuilt.files)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
            whole = False
        except OSError as error:
            raise UsageError(f"what was compiled cannot be read: {error.strerror}",
                             where=str(error.filename or folder), next_step="give this user the "
                             "right to read it, then run the same command again") from error
        if whole:
            with suppress(OSError):
                os.utime(folder / _FACTS)  # last use, for ``prune``
            return rebuilt, folder / _FILES
        if folder.exists():
            console.warn(f"what was compiled as {key[:12]} is damaged or not what the key makes; "
                         "it is removed")
            remove_tree(folder, self._root)
        return None

    def keep(self, rebuilt: Rebuilt, output: Path) -> Path:
        """Move the compiled files in, in one step; return their folder.

        ``output`` lies in a temporary folder of the store, whose file system it shares. Raises
        VerdictError where the files are not those of ``rebuilt``.
        """
        making = output.with_name(f"{output.name}.kept")
        making.mkdir()
        output.rename(making / _FILES)
        write_text(making / _FACTS, rebuilt.model_dump_json(indent=1) + "\n")
        target = self._folder / rebuilt.key
        target.parent.mkdir(exist_ok=True)
        with suppress(OSError):  # another run was quicker: equal inputs, so its files serve
            making.rename(target)
        if self.find(rebuilt.key) is None:  # what was there was not whole, and is gone now
            if not making.exists():
                raise VerdictError("the compiled files are not those that their record names",
                                   where=rebuilt.key, next_step="run the same command again; if "
                                   "it fails again, check this machine's disk")
            making.rename(target)
        return target / _FILES

    def record(self, sha256: str) -> WheelRecord | None:
        """Return how a wheel of this sha256 was put together."""
        try:
            path = self._folder / f"{sha256}.json"
            return WheelRecord.model_validate_json(read_file(path, SETTINGS_BYTES, "record"))
        except (OSError, ValueError):
            return None

    def wheel_of(self, record: WheelRecord, store: Store) -> LockedWheel | None:
        """Return the wheel that was put together by a record, where it lies in the store."""
        for path in sorted(self._folder.glob("*.json")):
            if self.record(path.stem) != record:
                continue
            for file in (self._root / "wheels" / path.stem).glob("*.whl"):
                wheel = LockedWheel(name=record.package, version=record.version, file=file.name,
                                    sha256=path.stem, size=file.stat().st_size, index=COMPILED)
                if store.find_wheel(wheel):
                    return wheel
        return None

    def keep_record(self, sha256: str, record: WheelRecord) -> None:
        """Remember how a wheel was put together."""
        write_text(self._folder / f"{sha256}.json", record.model_dump_json() + "\n")


def everything(root: Path) -> list[Rebuilt]:
    """Return all that was compiled in the cache ``root``, by key, without what is not readable.

    Nothing is made or changed there.
    """
    found = []
    for path in sorted((root / FOLDER).glob(f"*/{_FACTS}")):
        with suppress(OSError, ValueError, UsageError):
            text = read_file(path, SETTINGS_BYTES, "record of a compile")
            found.append(Rebuilt.model_validate_json(text))
    return found
