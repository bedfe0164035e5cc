"""A suite and package names into exact Debian packages, by apt, for any processor.

apt is given a folder of its own in place of the system's: empty status, the machine's mirror,
one architecture. Nothing of this machine's packages enters, and nothing on it changes.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from builder import process
from builder.debian.apt_sources import debian_mirrors
from builder.errors import NetworkError, SparkyardError
from builder.locking.base_lock import LockedDeb
from builder.process import CommandError

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# The file name carries the version's epoch (``1%3a2.38``), the address does not.
URI_LINE = re.compile(r"'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) "
                      r"SHA256:(?P<sha256>[0-9a-f]{64})")


def resolve_debs(suite: str, arch: str, packages: Sequence[str]) -> tuple[LockedDeb, ...]:
    """Return Debian's essential packages, ``packages`` and all that they need, sorted.

    Security updates are included, recommendations are not. Raises NetworkError, with apt's own
    words, where the mirror does not answer or a package is unknown.
    """
    mirrors = debian_mirrors(suite)
    with tempfile.TemporaryDirectory(prefix="sparkyard-apt-") as folder:
        options = _private_apt(Path(folder), suite, arch, mirrors)
        try:
            process.run(["apt-get", *options, "-q", "update", "-o", "APT::Update::Error-Mode=any"])
            said = process.run(["apt-get", *options, "-qq", "install", "--print-uris",
                                "?essential", *packages])
        except CommandError as error:
            raise _refused(error, suite, arch) from error
    return parse_uris(said.stdout, mirrors)


def parse_uris(text: str, mirrors: tuple[str, str]) -> tuple[LockedDeb, ...]:
    """Read the lines of ``apt-get --print-uris``; ``mirrors`` are cut off the addresses."""
    debs = []
    for found in URI_LINE.finditer(text):
        uri = found["uri"]
        path = next(uri.removeprefix(mirror + "/") for mirror in mirrors
                    if uri.startswith(mirror + "/"))
        name, version, arch = found["file"].removesuffix(".deb").split("_")
        debs.append(LockedDeb(name=name, version=_plain(version), arch=arch, path=path,
                              sha256=found["sha256"], size=int(found["size"])))
    return tuple(sorted(debs, key=lambda deb: (deb.name, deb.arch)))


def _plain(version: str) -> str:
    """Undo the escapes of a version in a file name: ``1%3a2.38`` is ``1:2.38``."""
    return re.sub(r"%([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), version)


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


def _refused(error: CommandError, suite: str, arch: str) -> SparkyardError:
    said = [line for line in error.result.stderr.splitlines() if line.startswith(("E:", "W:"))]
    return NetworkError(f"the packages of the base cannot be resolved for {suite} {arch}\n"
                        + "\n".join(said[:6]), where="images/base/slim.toml",
                        next_step="check the names there and this machine's Debian mirror")
