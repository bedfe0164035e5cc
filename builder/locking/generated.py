"""What all generated files in ``locks/`` share: read within limits, judged whole, and summed.

``SHA256SUMS`` holds the sha256 of each lock as it was written, so that an edit by hand (a size, a
version) is seen by ``lock --check`` even where the result is a valid lock. It has the format of
coreutils: ``cd locks && sha256sum --check SHA256SUMS`` says the same.
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
LINE = re.compile(r"([0-9a-f]{64})  ([^/\\\s]+)")


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
    """Note the sha256 of a lock that was just written, and forget locks that are gone."""
    with _alone(path.parent):
        sums = {name: digest for name, digest in read_sums(path.parent).items()
                if (path.parent / name).exists()}
        sums[path.name] = sha256_file(path)
        lines = [f"{digest}  {name}\n" for name, digest in sorted(sums.items())]
        write_text(path.parent / SUMS, "".join(lines))


def read_sums(folder: Path) -> dict[str, str]:
    """Return file name -> sha256 as last written; what is no such line counts as not there."""
    try:
        text = read_file(folder / SUMS, LOCK_BYTES, "list of sums").decode("utf-8", "replace")
    except (FileNotFoundError, UsageError):
        return {}
    return {match[2]: match[1] for line in text.splitlines() if (match := LINE.fullmatch(line))}


def is_as_written(path: Path) -> bool:
    """Say whether a lock has the bytes that this program wrote."""
    noted = read_sums(path.parent).get(path.name)
    return noted == hashlib.sha256(read_file(path, LOCK_BYTES, "lock")).hexdigest()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time change the sums of a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
