"""Locked Debian packages into the cache, through apt's own downloader.

apt knows this machine's proxies and certificates. A package is trusted only after its sha256 was
compared with the lock; it lies under its digest from then on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from builder import console, process
from builder.debian.apt_sources import debian_mirrors
from builder.errors import IntegrityError, NetworkError
from builder.files import sha256_file
from builder.locking.base_lock import LockedDeb

HELPER = "/usr/lib/apt/apt-helper"
AT_ONCE = 8


class GoneError(NetworkError):
    """A locked package is on no mirror any more: Debian keeps only what is current."""

    kind = "gone"


def fetch_debs(debs: Sequence[LockedDeb], suite: str, cache: Path) -> list[Path]:
    """Return the files of ``debs``, in their order, fetching what is not there.

    Raises GoneError for a package that the mirror no longer has, IntegrityError for other bytes,
    NetworkError where nothing answers.
    """
    folder = cache / "debs"
    folder.mkdir(parents=True, exist_ok=True)
    missing = [deb for deb in debs if not _is_there(place(folder, deb), deb)]
    if missing:
        mirrors = debian_mirrors(suite)
        total = sum(deb.size for deb in missing)
        with (console.progress("fetching Debian packages", total) as meter,
              ThreadPoolExecutor(AT_ONCE) as pool):
            for deb in pool.map(lambda deb: _fetch(deb, folder, mirrors), missing):
                meter.advance(deb.size)
    return [place(folder, deb) for deb in debs]


def place(folder: Path, deb: LockedDeb) -> Path:
    """Return where a package lies in the cache."""
    return folder / f"{deb.sha256}.deb"


def _is_there(path: Path, deb: LockedDeb) -> bool:
    """Say whether the file is whole; a damaged one is removed, to be fetched again."""
    if not path.is_file():
        return False
    if sha256_file(path) == deb.sha256:
        return True
    console.warn(f"{path.name} in the cache is damaged; fetching it again")
    path.unlink()
    return False


def _fetch(deb: LockedDeb, folder: Path, mirrors: tuple[str, str]) -> LockedDeb:
    mirror = mirrors[1] if deb.path.startswith("pool/updates/") else mirrors[0]
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
        target = Path(temporary, "package.deb")
        said = process.run(
            [HELPER, "-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3",
             "download-file", f"{mirror}/{deb.path}", target], check=False)
        if said.returncode != 0:
            raise _failure(deb, said.stdout + said.stderr)
        actual = sha256_file(target)
        if actual != deb.sha256:
            raise IntegrityError(deb.path, expected=deb.sha256, actual=actual)
        target.replace(place(folder, deb))
    return deb


def _failure(deb: LockedDeb, said: str) -> NetworkError:
    reason = next((line for line in said.splitlines() if line.startswith("E:")), "no answer")
    if "404" in said:
        return GoneError(f"Debian's mirror no longer has {deb.name} {deb.version}",
                         where=deb.path, next_step="sparkyard base --upgrade")
    return NetworkError(f"{deb.name} {deb.version} cannot be fetched: {reason}", where=deb.path,
                        next_step="check the network and this machine's apt sources")
