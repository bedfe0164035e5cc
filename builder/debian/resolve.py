"""A suite and package names into exact Debian packages, by apt, for any processor.

apt is given a folder of its own in place of the system's: empty status, the machine's mirror,
one architecture. Nothing of this machine's packages enters, and nothing on it changes.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from builder import limits, process
from builder.debian.apt_sources import debian_mirrors
from builder.errors import NetworkError, SparkyardError
from builder.locking.base_lock import LockedDeb
from builder.process import CommandError
from builder.text import visible

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# The file name carries the version's epoch (``1%3a2.38``), the address does not.
URI_LINE = re.compile(r"'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) "
                      r"SHA256:(?P<sha256>[0-9a-f]{64})")


def resolve_debs(suite: str, arch: str, packages: Sequence[str], *, where: str
                 ) -> tuple[LockedDeb, ...]:
    """Return Debian's essential packages, ``packages`` and all that they need, sorted.

    Security updates are included, recommendations are not. ``where`` is the file that names the
    packages. Raises NetworkError, with apt's own words, where the mirror does not answer or a
    package is unknown.
    """
    mirrors = debian_mirrors(suite)
    with tempfile.TemporaryDirectory(prefix="sparkyard-apt-") as folder:
        options = _private_apt(Path(folder), suite, arch, mirrors)
        try:
            process.run(["apt-get", *options, "-q", "update", "-o", "APT::Update::Error-Mode=any"],
                        timeout=limits.APT_S)
            listed = process.run(["apt-get", *options, "-qq", "install", "--print-uris",
                                  "?essential", *packages], timeout=limits.APT_S)
        except CommandError as error:
            raise _refused(error, suite, arch, where) from error
    return parse_uris(listed.stdout, mirrors)


def parse_uris(text: str, mirrors: tuple[str, str]) -> tuple[LockedDeb, ...]:
    """Read the lines of ``apt-get --print-uris``; ``mirrors`` are cut off the addresses.

    Raises NetworkError for a package from anywhere else.
    """
    debs = []
    for line in URI_LINE.finditer(text):
        path = next((line["uri"].removeprefix(mirror + "/") for mirror in mirrors
                     if line["uri"].startswith(mirror + "/")), "")
        parts = line["file"].removesuffix(".deb").split("_")
        if not path or len(parts) != len(("name", "version", "arch")):
            raise NetworkError(f"apt names a package that is not on the mirror: {visible(line[0])}",
                               where=mirrors[0], next_step="check this machine's apt sources")
        name, version, arch = parts
        debs.append(LockedDeb(name=name, version=_plain(version), arch=arch, path=path,
                              sha256=line["sha256"], size=int(line["size"])))
    return tuple(sorted(debs, key=lambda deb: (deb.name, deb.arch)))


def _plain(version: str) -> str:
    """Undo the escapes of a version in a file name: ``1%3a2.38`` is ``1:2.38``."""
    return re.sub(r"%([0-9a-fA-F]{2})", lambda escape: chr(int(escape[1], 16)), version)


def _private_apt(folder: Path, suite: str, arch: str, mirrors: tuple[str, str]) -> list[str]:
    """Lay out apt's folder; return the options that make apt use it."""
    for name in ("lists/partial", "cache/archives/partial", "parts", "none"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    stanza = "Types: deb\nURIs: {}\nSuites: {}\nComponents: main\nSigned-By: " + KEYRING + "\n"
    (folder / "parts/debian.sources").write_text(
        stanza.format(mirrors[0], f"{suite} {suite}-updates") + "\n"
        + stanza.format(mirrors[1], f"{suite}-security"), encoding="utf-8")
    settings = {
        "Dir::State": folder, "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status", "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": folder / "parts",
        "Dir::Etc::preferences": "/dev/null", "Dir::Etc::preferencesparts": folder / "none",
        "APT::Architecture": arch, "APT::Architectures": arch,
        "APT::Install-Recommends": "false", "APT::Sandbox::User": "root",
        "Acquire::ForceHash": "SHA256", "Acquire::Languages": "none", "Acquire::Retries": "3",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _refused(error: CommandError, suite: str, arch: str, where: str) -> SparkyardError:
    lines = [visible(line) for line in error.result.stderr.splitlines()
             if line.startswith(("E:", "W:"))]
    reason = lines[:6] or [f"apt-get ended with status {error.result.returncode}"]
    what = f"apt cannot resolve the base's packages for Debian {suite} ({arch})"
    return NetworkError("\n".join([what, *reason]), where=where,
                        next_step="check the package names there, and the Debian mirror in this "
                                  "machine's apt sources")
