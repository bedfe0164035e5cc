"""Where this machine gets Debian packages from: its own apt sources, read and never invented.

No mirror's name stands in this repository. Whatever Sparkyard asks of Debian it asks of the
mirror that the machine already uses, or of the one in ``SPARKYARD_DEBIAN_MIRROR``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builder import limits
from builder.errors import HostError, UsageError

APT = Path("/etc/apt")
NAME_ONE = "set SPARKYARD_DEBIAN_MIRROR to a Debian mirror: http://<host>/debian"
OPTION = re.compile(r"^\[[^\]]*\]\s*")


@dataclass(frozen=True)
class AptSource:
    """One binary package source: an address, its suites and the keyring that signs them."""

    uri: str
    suites: tuple[str, ...]
    signed_by: str = ""


def read_sources(apt: Path = APT) -> tuple[AptSource, ...]:
    """Return the machine's sources, of deb822 (``*.sources``) and one-line (``*.list``) files."""
    sources: list[AptSource] = []
    for file in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        if not file.is_file() or file.suffix not in (".sources", ".list"):
            continue
        parse = parse_deb822 if file.suffix == ".sources" else parse_lines
        sources.extend(parse(_read(file)))
    return tuple(sources)


def _read(file: Path) -> str:
    """Return the text of one source file; raises UsageError where it cannot be read."""
    try:
        data = limits.read_file(file, limits.CONFIG_BYTES, "list of apt sources")
    except OSError as error:
        raise UsageError(f"this list of apt sources cannot be read: {error.strerror}",
                         where=str(file), next_step=NAME_ONE) from error
    return data.decode("utf-8", "replace")


def parse_deb822(text: str) -> Iterator[AptSource]:
    """Read the stanzas of a ``.sources`` file; disabled and source-only ones are left out."""
    for stanza in re.split(r"\n\s*\n", _without_comments(text)):
        fields = {key.lower(): value.split() for key, value in
                  re.findall(r"(?m)^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t]+.*)*)", stanza)}
        if "deb" not in fields.get("types", []) or fields.get("enabled") == ["no"]:
            continue
        keyring = fields.get("signed-by", [""])[0]
        for uri in fields.get("uris", []):
            yield AptSource(uri.rstrip("/"), tuple(fields.get("suites", [])),
                            keyring if keyring.startswith("/") else "")


def parse_lines(text: str) -> Iterator[AptSource]:
    """Read the ``deb URI SUITE …`` lines of a ``.list`` file."""
    for line in text.splitlines():
        kind, _, rest = line.strip().partition(" ")
        if kind != "deb":
            continue
        keyring = re.search(r"signed-by=(/[^\s\]]+)", rest)
        words = OPTION.sub("", rest.strip()).split()
        if len(words) > 1:
            yield AptSource(words[0].rstrip("/"), (words[1],), keyring[1] if keyring else "")


def archive_uri(sources: tuple[AptSource, ...], suite: str) -> str | None:
    """Return the address that ``suite`` (``bookworm``, ``bookworm-security``) comes from."""
    return next((source.uri for source in sources if suite in source.suites), None)


def debian_mirrors(suite: str, apt: Path = APT) -> tuple[str, str]:
    """Return the addresses of Debian's archive and of its security archive, for ``suite``.

    ``SPARKYARD_DEBIAN_MIRROR`` wins; a machine on another Debian release lends its mirror.
    Raises UsageError on a machine that names no Debian mirror.
    """
    named = os.environ.get("SPARKYARD_DEBIAN_MIRROR")
    if named:
        refuse_password(named, "SPARKYARD_DEBIAN_MIRROR")
    sources = () if named else read_sources(apt)
    main = named or next((uri for name in (suite, "trixie", "bookworm")
                          if (uri := archive_uri(sources, name))), None)
    if main is None:
        raise UsageError(
            "this machine's apt sources name no Debian mirror", where=str(apt),
            next_step=NAME_ONE)
    main = main.rstrip("/")
    security = archive_uri(sources, f"{suite}-security")
    return main, security or re.sub(r"/debian$", "/debian-security", main)


def refuse_password(address: str, variable: str) -> None:
    """Raise HostError for an address with a user: every user of the machine would see it.

    It stands on the command line of apt's downloader; apt itself takes passwords from a file.
    """
    if re.match(r"[^:/]+://[^/?#]*@", address):
        raise HostError("the address must hold no user name or password", where=variable,
                        next_step="leave them out, and write them into a file of "
                        "/etc/apt/auth.conf.d (see `man apt_auth.conf`)")


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))
