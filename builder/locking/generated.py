"""What all generated files in ``locks/`` share: read within limits, judged whole, and summed.

``SHA256SUMS`` holds the sha256 of each lock and of each base's facts as they were written, so that
an edit by hand (a size, a version) is seen even where the result is a valid lock. It has the format
of coreutils: ``cd locks && sha256sum --check SHA256SUMS`` says the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli

from builder.errors import LockError, UsageError
from builder.files import sha256_file, write_text
from builder.limits import LOCK_BYTES, read_file

SUMS = "SHA256SUMS"
FACTS = "facts"  # the folder in locks/ that holds the facts of the bases
LINE = re.compile(rf"([0-9a-f]{{64}})  ((?:{FACTS}/)?[^/\\\s]+)")
EDITED = "edited by hand or badly merged"


def read_generated(path: Path, what: str, next_step: str) -> dict[str, Any] | None:
    """Return the TOML document in ``path``, None where there is no such file.

    Raises LockError for what cannot be read as TOML, in any way.
    """
    try:
        return tomli.loads(read_file(path, LOCK_BYTES, what).decode("utf-8"))
    except FileNotFoundError:
        return None
    except UsageError as error:
        raise DamagedLockError(error.what, where=str(path), next_step=next_step) from error
    except RecursionError as error:
        raise damaged(what, ["nested too deeply"], path, next_step) from error
    except (ValueError, OSError) as error:
        raise damaged(what, [str(error)], path, next_step) from error


class DamagedLockError(LockError):
    """A generated file is not as this program writes it: edited, badly merged or cut off."""


def damaged(what: str, faults: Sequence[str], path: Path, next_step: str) -> DamagedLockError:
    """Return the error that names every fault of a generated file."""
    lines = "\n".join(f"  {fault}" for fault in faults)
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return DamagedLockError(f"the {what} is damaged, {count}:\n{lines}", where=str(path),
                            next_step=next_step)


def repeated(values: Iterable[str]) -> list[str]:
    """Return the values that come more than once."""
    return [value for value, count in Counter(values).items() if count > 1]


def in_order(keys: Iterable[tuple[str, ...]]) -> bool:
    """Say whether the keys are sorted, as they are written."""
    listed = list(keys)
    return listed == sorted(listed)


def record_sum(path: Path) -> None:
    """Note the sha256 of a file that was just written, and forget files that are gone."""
    folder, name = _place(path)
    with _alone(folder):
        sums = {known: digest for known, digest in read_sums(folder).items()
                if (folder / known).exists()}
        sums[name] = sha256_file(path)
        lines = [f"{digest}  {known}\n" for known, digest in sorted(sums.items())]
        write_text(folder / SUMS, "".join(lines))


def keep_sum(path: Path) -> None:
    """Note the sha256 of a file that was just written, where its folder keeps sums."""
    if sums_file(path).exists():
        record_sum(path)


def read_sums(folder: Path) -> dict[str, str]:
    """Return file name -> sha256 as last written; what is no such line counts as not there."""
    lines = _sums_text(folder).splitlines()
    return {match[2]: match[1] for line in lines if (match := LINE.fullmatch(line))}


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
    twice = repeated(match[2] for match in found if match)
    return f"it names {twice[0]} twice" if twice else ""


def noted_sum(path: Path) -> str | None:
    """Return the sha256 that a file had when it was written; None where no sum is kept of it."""
    folder, name = _place(path)
    found = re.search(rf"^([0-9a-f]{{64}})  {re.escape(name)}$", _sums_text(folder), re.MULTILINE)
    return found[1] if found else None


def is_as_written(path: Path) -> bool:
    """Say whether a file has the bytes that this program wrote; false where no sum is kept."""
    return noted_sum(path) == _sum_now(path)


def is_edited(path: Path) -> bool:
    """Say whether a file has other bytes than this program wrote; false where no sum is kept."""
    noted = noted_sum(path)
    return noted is not None and noted != _sum_now(path)


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


def _sum_now(path: Path) -> str:
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
