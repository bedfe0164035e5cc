"""Diffs as bytes: their normal form, and where they are kept by sha256.

A hosting service writes abbreviated blob names into ``index`` lines and lengthens them as the
repository grows: the same change, other bytes. No line of a text hunk can begin that way, so the
lines are left out before anything is hashed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder.errors import HostError
from builder.files import disk_errors, write_bytes
from builder.removal import remove_file

_FILES = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_INDEX = re.compile(rb"^index [^\n]*(\n|\Z)", re.MULTILINE)


def normal_form(diff: bytes) -> bytes:
    """Return the diff without its ``index`` lines, but for those of binary hunks, which need them.

    Git writes full names there, so they do not grow.
    """
    # A carriage return alone ends no line of a diff.
    return b"".join(part if b"\nGIT binary patch\n" in part else _INDEX.sub(b"", part)
                    for part in _FILES.split(diff))


def digest_of(data: bytes) -> str:
    """Return the sha256, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def place(cache: Path, sha256: str) -> Path:
    """Return where the bytes of this digest are kept."""
    return cache / "patches" / "bytes" / sha256


def keep(cache: Path, data: bytes) -> str:
    """Keep bytes, complete or not at all, and return their sha256."""
    digest = digest_of(data)
    with cache_errors(cache):
        write_bytes(place(cache, digest), data)
    return digest


def find(cache: Path, sha256: str) -> bytes | None:
    """Return kept bytes; those that are not what their name says are removed, not trusted."""
    path = place(cache, sha256)
    with cache_errors(cache):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        if digest_of(data) == sha256:
            return data
        remove_file(path, cache)
    return None


@contextmanager
def cache_errors(cache: Path) -> Iterator[None]:
    """Turn what the operating system says about the cache in the block into words for people."""
    try:
        with disk_errors(cache, "while patches were read or kept"):
            yield
    except OSError as error:
        raise HostError(f"the cache folder cannot be used: {error.strerror}", where=str(cache),
                        next_step="check its permissions, or set SPARKYARD_CACHE to a folder that "
                        "you can write to") from error
