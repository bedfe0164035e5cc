"""``locks/SHA256SUMS``: what each lock and each base's facts were when they were written.

An edit by hand (a size, a version) is seen by it even where the result is a valid lock. It has the
format of coreutils: ``cd locks && sha256sum --check SHA256SUMS`` says the same. While a file is
written, a comment there names the sum that it is about to have: a run that is killed at any moment
leaves no file that looks edited.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder.errors import UsageError
from builder.files import write_bytes, write_text
from builder.limits import LOCK_BYTES, read_file
from builder.locking.generated import DamagedLockError, repeated

SUMS = "SHA256SUMS"
FACTS = "facts"  # the folder in locks/ that holds the facts of the bases
LINE = re.compile(rf"(# writing )?([0-9a-f]{{64}})  ((?:{FACTS}/)?[^/\\\s]+)")
EDITED = "edited by hand or badly merged"


def write_summed(path: Path, data: bytes, *, begin: bool = False) -> None:
    """Replace a file by ``data`` and note its sum; whenever it is killed, the two agree.

    Where the folder keeps no sums, none is noted, unless this is to ``begin`` them.
    """
    folder, name = _place(path)
    if not (begin or (folder / SUMS).exists()):
        write_bytes(path, data)
        return
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(data).hexdigest()
    with _alone(folder):
        sums = _sums_now(folder)
        if sums.get(name, digest) != digest:
            _write(folder, sums, f"# writing {digest}  {name}\n")
        write_bytes(path, data)
        _write(folder, {**sums, name: digest})


def record_sum(path: Path) -> None:
    """Note the sha256 of a file that was just written, and forget files that are gone."""
    folder, name = _place(path)
    with _alone(folder):
        _write(folder, {**_sums_now(folder), name: _digest(path)})


def settle(path: Path) -> None:
    """Note the sum of a file whose writing was cut off just before that, where none is due."""
    if is_cut_off(path):
        record_sum(path)


def is_cut_off(path: Path) -> bool:
    """Say whether a run was killed between the writing of a file and the noting of its sum."""
    return not is_as_written(path) and is_summed(path) and not is_edited(path)


def _sums_now(folder: Path) -> dict[str, str]:
    """Return the sums of files that are there; a file whose writing was cut off has its own."""
    begun = {name: digest for name, digest in _begun(folder).items()
             if (folder / name).is_file() and _digest(folder / name) == digest}
    return {name: digest for name, digest in {**read_sums(folder), **begun}.items()
            if (folder / name).exists()}


def _write(folder: Path, sums: dict[str, str], begun: str = "") -> None:
    lines = [f"{digest}  {name}\n" for name, digest in sorted(sums.items())]
    write_text(folder / SUMS, "".join([*lines, begun]))


def read_sums(folder: Path) -> dict[str, str]:
    """Return file name -> sha256 as last written; what is no such line counts as not there."""
    return {match[3]: match[2] for match in _lines(folder) if not match[1]}


def _begun(folder: Path) -> dict[str, str]:
    return {match[3]: match[2] for match in _lines(folder) if match[1]}


def _lines(folder: Path) -> Iterator[re.Match[str]]:
    return filter(None, map(LINE.fullmatch, _sums_text(folder).splitlines()))


def sums_fault(folder: Path) -> str:
    """Say what is wrong with the list of sums itself; nothing where it can be believed."""
    try:
        lines = _read_sums(folder).splitlines()
    except FileNotFoundError:
        return "it is missing"
    except UsageError as error:
        return error.what
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    found = [LINE.fullmatch(line) for line in lines]
    wrong = [number for number, match in enumerate(found, start=1) if match is None]
    if wrong:
        return f"line {wrong[0]} is not the sum of a file"
    twice = repeated(match[3] for match in found if match and not match[1])
    return f"it names {twice[0]} twice" if twice else ""


def is_summed(path: Path) -> bool:
    """Say whether a sum of the file is kept."""
    return bool(_noted(path))


def is_as_written(path: Path) -> bool:
    """Say whether a file has the bytes that this program wrote; false where no sum is kept."""
    return f"{_digest(path)}  {_place(path)[1]}" in _sums_text(_place(path)[0]).splitlines()


def is_edited(path: Path) -> bool:
    """Say whether a file has other bytes than this program wrote; false where no sum is kept."""
    return _differs(path) and _differs(path)  # it may have been written in between


def _differs(path: Path) -> bool:
    """Compare the sums that a file may have with its bytes, which are read after them."""
    noted = _noted(path)
    return bool(noted) and _digest(path) not in noted


def refuse_edited(path: Path, what: str, next_step: str) -> None:
    """Raise DamagedLockError for a file that has other bytes than this program wrote."""
    if is_edited(path):
        raise DamagedLockError(
            f"the {what} was {EDITED}: its sha256 is not the one in {SUMS}", where=str(path),
            next_step=f"{restore_step(path)}, or {next_step}")


def sums_file(path: Path) -> Path:
    """Return the list that names a file of ``locks/``."""
    return _place(path)[0] / SUMS


def restore_step(path: Path) -> str:
    """Say how the committed state of a file in ``locks/`` comes back."""
    folder, name = _place(path)
    return f"take back the committed one with `git checkout {folder.name}/{name}`"


def _place(path: Path) -> tuple[Path, str]:
    """Return the folder whose list names a file, and the file's name there."""
    if path.parent.name == FACTS:
        return path.parent.parent, f"{FACTS}/{path.name}"
    return path.parent, path.name


def _noted(path: Path) -> set[str]:
    """Return the sums that a file may have: two while it is written. Only its lines are read."""
    folder, name = _place(path)
    pattern = rf"^(?:# writing )?([0-9a-f]{{64}})  {re.escape(name)}$"
    found = re.findall(pattern, _sums_text(folder), re.MULTILINE)
    return set(found)


def _digest(path: Path) -> str:
    return hashlib.sha256(read_file(path, LOCK_BYTES, "lock")).hexdigest()


def _sums_text(folder: Path) -> str:
    try:
        return _read_sums(folder)
    except (OSError, UsageError):
        return ""


def _read_sums(folder: Path) -> str:
    return read_file(folder / SUMS, LOCK_BYTES, "list of sums").decode("utf-8", "replace")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time change the sums of a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
