"""Locked Debian packages into the cache, through apt's own downloader.

apt knows this machine's proxies and certificates. A package is trusted only after its sha256 was
compared with the lock; it lies under its digest from then on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from builder import console, limits, process
from builder.debian.apt_sources import debian_mirrors
from builder.errors import IntegrityError, NetworkError, command
from builder.files import require_space, sha256_file
from builder.locking.base_lock import LockedDeb
from builder.process import CommandError
from builder.removal import remove_file
from builder.text import visible

HELPER = "/usr/lib/apt/apt-helper"
AT_ONCE = 8
SHOWN = 3  # of the packages that are gone


class GoneError(NetworkError):
    """A locked package is on no mirror any more: Debian keeps only what is current."""

    kind = "gone"


def fetch_debs(debs: Sequence[LockedDeb], suite: str, cache: Path) -> list[Path]:
    """Return the files of ``debs``, in their order, fetching what is not there.

    Raises GoneError with all packages that the mirror no longer has, IntegrityError for other
    bytes, NetworkError where nothing answers, DiskError where they do not fit.
    """
    folder = cache / "debs"
    folder.mkdir(parents=True, exist_ok=True)
    missing = [deb for deb in debs if not _is_there(place(folder, deb), deb)]
    if missing:
        _fetch_missing(missing, folder, debian_mirrors(suite))
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
    remove_file(path, path.parent)
    return False


def _fetch_missing(missing: Sequence[LockedDeb], folder: Path, mirrors: tuple[str, str]) -> None:
    total = sum(deb.size for deb in missing)
    require_space(folder, total, "for the base's Debian packages")
    gone: list[LockedDeb] = []
    with (console.progress("fetching Debian packages", total) as meter,
          ThreadPoolExecutor(AT_ONCE) as pool):
        for deb, there in pool.map(lambda deb: (deb, _fetch(deb, folder, mirrors)), missing):
            meter.advance(deb.size)
            if not there:
                gone.append(deb)
    if gone:
        raise _gone(gone)


def _fetch(deb: LockedDeb, folder: Path, mirrors: tuple[str, str]) -> bool:
    """Fetch one package; return whether the mirror has it."""
    mirror = mirrors[1] if deb.path.startswith("pool/updates/") else mirrors[0]
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
        target = Path(temporary, "package.deb")
        status, output = _download(f"{mirror}/{deb.path}", target)
        if status != 0 and "404" in output:
            return False
        if status != 0:
            raise _unreachable(deb, output)
        actual = sha256_file(target)
        if actual != deb.sha256:
            raise IntegrityError(deb.path, expected=deb.sha256, actual=actual)
        target.replace(place(folder, deb))
    return True


def _download(uri: str, target: Path) -> tuple[int, str]:
    """Run apt's downloader; return its status and what it printed."""
    try:
        result = process.run(
            [HELPER, "-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3",
             "download-file", uri, target], check=False, timeout=limits.DEB_S)
    except CommandError as error:
        result = error.result
    return result.returncode, result.stdout + result.stderr


def _gone(debs: Sequence[LockedDeb]) -> GoneError:
    names = ", ".join(f"{deb.name} {deb.version}" for deb in debs[:SHOWN])
    more = f" and {len(debs) - SHOWN} more" if len(debs) > SHOWN else ""
    return GoneError(f"Debian's mirror no longer has locked packages: {names}{more}",
                     where="locks/bases.toml",
                     next_step=f"lock the current ones: {command('base', '--upgrade')}")


def _unreachable(deb: LockedDeb, output: str) -> NetworkError:
    lines = [line for line in output.splitlines() if line.startswith("E:")]
    reason = visible(lines[0]) if lines else "apt's downloader gives no reason"
    return NetworkError(f"{deb.name} {deb.version} cannot be fetched: {reason}", where=deb.path,
                        next_step="check the network and the Debian mirror in this machine's apt "
                                  "sources")
