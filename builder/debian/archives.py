"""Archives that may have a Debian package: the user's mirror, and a snapshot service at a time.

Both are asked through apt's own downloader, which knows this machine's proxies and certificates.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from builder import limits, process
from builder.debian.apt_sources import debian_mirrors, refuse_password
from builder.errors import NetworkError, UsageError
from builder.locking.base_lock import SNAPSHOT_FORMAT, LockedDeb
from builder.matrix.snapshot import snapshot_address
from builder.process import CommandError
from builder.text import visible

HELPER = "/usr/lib/apt/apt-helper"
VARIABLE = "SPARKYARD_DEBIAN_SNAPSHOT"
OFF = "off"
MIRROR = "your Debian mirror"
MIRROR_AT_ONCE = 8
SNAPSHOT_AT_ONCE = 2  # one service for everybody, which slows down who asks for much at once
SLACK_BYTES = 1 << 20
# A mirror is some hours behind or ahead of the service, which takes a few snapshots a day.
DAYS_BESIDE = (0, -1, 1)
GONE = re.compile(r"  (404|410)  ")  # apt's words: the address, the status, what the server says
Pair = tuple[str, str]  # addresses of Debian's archive and of its security archive


@dataclass(frozen=True)
class Archive:
    """An archive at one or more addresses, tried in this order; ``seconds`` is for one package."""

    title: str
    find: Callable[[], tuple[Pair, ...]]
    at_once: int
    seconds: float

    @cached_property
    def addresses(self) -> tuple[Pair, ...]:
        """Return the addresses, looked up when the first package is asked for."""
        return self.find()

    def get(self, deb: LockedDeb, target: Path) -> bool:
        """Write a package to ``target``; return false where the archive does not have it.

        Raises NetworkError where it does not answer, UsageError where no address is known.
        """
        for main, security in self.addresses:
            there = security if deb.path.startswith("pool/updates/") else main
            status, output = self._download(f"{there}/{deb.path}", target, deb.size)
            if status == 0:
                return True
            if not GONE.search(output):
                raise _unreachable(deb, output)
        return False

    def _download(self, uri: str, target: Path, size: int) -> tuple[int, str]:
        """Run apt's downloader; return its status and what it printed.

        What it may write is limited: an answer may be endless.
        """
        try:
            result = process.run(
                ["prlimit", f"--fsize={size + SLACK_BYTES}", HELPER, "-q", "-o",
                 "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "download-file", uri,
                 target], check=False, timeout=self.seconds)
        except CommandError as error:
            result = error.result
        return result.returncode, result.stdout + result.stderr


def mirror(suite: str) -> Archive:
    """Return the mirror that this machine's apt uses, or the one that the environment names."""
    return Archive(MIRROR, lambda: (debian_mirrors(suite),), MIRROR_AT_ONCE, limits.DEB_S)


def snapshot(template: str | None, time: str) -> Archive | None:
    """Return a snapshot service at the time of a lock; None where there is none to ask.

    ``template`` is the matrix's address; the environment overrides it. Raises UsageError for an
    address of the environment that is none.
    """
    named = os.environ.get(VARIABLE)
    if named == OFF or not time or not (named or template):
        return None
    if named:
        refuse_password(named, VARIABLE)
    address = checked(named) if named else str(template)
    middle = datetime.strptime(time, SNAPSHOT_FORMAT)
    times = [(middle + timedelta(days=days)).strftime(SNAPSHOT_FORMAT) for days in DAYS_BESIDE]
    pairs = tuple((address.format(archive="debian", time=at).rstrip("/"),
                   address.format(archive="debian-security", time=at).rstrip("/"))
                  for at in times)
    return Archive(f"the snapshot service at {time}", lambda: pairs, SNAPSHOT_AT_ONCE,
                   limits.SNAPSHOT_DEB_S)


def checked(address: str) -> str:
    """Accept a snapshot service's address from the environment; raises UsageError."""
    try:
        fault = ("" if re.fullmatch(r"https?://[!-~]+", snapshot_address(address))
                 else "must be an http:// or https:// address without spaces")
    except ValueError as error:
        fault = str(error)
    if fault:
        raise UsageError(f"the address of the snapshot service {fault}", where=VARIABLE,
                         next_step="set it to http://<host>/archive/{archive}/{time}, or to "
                                   f"{OFF}")
    return address


def _unreachable(deb: LockedDeb, output: str) -> NetworkError:
    lines = [line for line in output.splitlines() if line.startswith("E:")]
    reason = visible(lines[0]) if lines else "apt's downloader gives no reason"
    return NetworkError(f"{deb.name} {deb.version} cannot be fetched: {reason}", where=deb.path,
                        next_step="check the network and the Debian mirror in this machine's apt "
                                  "sources")
