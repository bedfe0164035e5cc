"""Where this machine gets wheels from: uv's own settings first, then pip's, as one frozen value.

uv reads neither ``pip.conf`` nor ``PIP_*``; most machines behind a mirror have only those. uv is
asked for its settings instead of reading ``uv.toml`` a second time, so that its discovery rules
hold here too, and so that the built-in default index is uv's word and stands nowhere in this code.

Addresses may hold credentials: they are never shown and never written to a file.
"""

from __future__ import annotations

import configparser
import functools
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import uv

from builder.errors import ConfigError, Problem
from builder.limits import PROGRAM_S
from builder.process import run

DEFAULT_INDEX = "default"  # how locks name the user's own default index, whatever it is
FIND_LINKS = "find-links"  # and one of the user's own folders of wheels
COMPILED = "compiled"  # no index has it: it was compiled, see builder.wheels

# An empty value counts as unset, so this hides every index and folder that the user named to uv.
NO_USER_INDEXES = dict.fromkeys(
    ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"), "")
_ASK = ("pip", "compile", "--quiet", "--no-header", "--emit-index-url", "--emit-find-links", "-")


@dataclass(frozen=True)
class Sources:
    """The user's own sources, in the order in which they are asked.

    ``find_links`` are folders or pages of wheels, ``cert`` a CA bundle, ``proxy`` what pip.conf
    names (proxies named by ``HTTPS_PROXY`` and its like are honoured by every client unasked).
    """

    default_index: str
    extra_indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    cert: str | None = None
    proxy: str | None = None


@dataclass(frozen=True)
class UvSettings:
    """What uv itself would use: its default index, its further indexes, its folders of wheels."""

    index: str
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()


@functools.cache
def user_sources() -> Sources:
    """Return this machine's sources; raises ConfigError for a pip.conf that cannot be read."""
    return combine(_uv_settings(own=True), _uv_settings(own=False), pip_settings(os.environ))


def combine(own: UvSettings, builtin: UvSettings, pip: Mapping[str, str]) -> Sources:
    """Lay uv's ``own`` settings over pip's; ``builtin`` is what uv does without any.

    Setting by setting, uv's wins where it is there: a machine may name a mirror to pip and a
    folder of wheels to uv, and means both. Further indexes are asked in turn, so they add up.
    """
    index = own.index if own.index != builtin.index else pip.get("index-url", builtin.index)
    extra = dict.fromkeys((*own.extra, *pip.get("extra-index-url", "").split()))
    return Sources(
        default_index=index, extra_indexes=tuple(extra),
        find_links=own.find_links or tuple(pip.get("find-links", "").split()),
        cert=_certificates(os.environ) or pip.get("cert"), proxy=pip.get("proxy"),
    )


def pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return pip's global settings by pip's own rules: files, then ``PIP_*``, the last one wins.

    https://pip.pypa.io/en/stable/topics/configuration/
    """
    settings: dict[str, str] = {}
    for path in _pip_files(environ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            first = str(error).splitlines()[0]
            raise ConfigError(str(path), [Problem(
                "pip", f"not readable: {first}", "correct it; pip config debug shows it too")]
                ) from error
        if parser.has_section("global"):
            settings.update(parser.items("global"))
    named = {key[4:].lower(): value for key, value in environ.items() if key.startswith("PIP_")}
    settings.update({key.replace("_", "-"): value for key, value in named.items() if value})
    return settings


def _uv_settings(*, own: bool) -> UvSettings:
    words = [*_ASK] if own else [*_ASK, "--no-config"]
    said = run([uv.find_uv_bin(), *words], stdin=b"", env=None if own else NO_USER_INDEXES,
               timeout=PROGRAM_S)
    return parse_uv_settings(said.stdout)


def parse_uv_settings(text: str) -> UvSettings:
    """Read the lines that uv writes on top of a compiled file, ``--index-url …`` and its like."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        option, _, value = line.partition(" ")
        if option.startswith("--"):
            found.setdefault(option, []).append(value)
    return UvSettings(
        index=found.get("--index-url", [""])[0], extra=tuple(found.get("--extra-index-url", ())),
        find_links=tuple(value for text in found.get("--find-links", ())
                         for value in shlex.split(text)))


def _certificates(environ: Mapping[str, str]) -> str | None:
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")
    return next((environ[name] for name in names if environ.get(name)), None)


def _pip_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the configuration files that pip reads, the strongest last."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return  # pip's own way to say "read no file"
    home = Path(environ.get("HOME") or Path.home())
    folders = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    for folder in reversed(re.split(os.pathsep, folders)):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")
    yield home / ".pip" / "pip.conf"
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if named:
        yield Path(named)
