"""Foreign text made fit to be shown: it cannot act on its reader, and it holds no secret."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Mapping

JOINERS = "\u200c\u200d"  # emoji and some scripts are wrong without them, and they do no harm
PICTURE = re.compile(r"(data:[\w/+.-]+;base64,)([\w+/=]{64,})")
URL_PASSWORD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^/\s'\"]+@")
# A name that no "=" follows is given up at once: each character is then read a few times at most.
URL_SECRET = re.compile(
    r"([?&](?=[^=&?\s'\"]*+=)"
    r"(?:[^=&?\s'\"]*(?:token|signature|secret|password|key)[^=&?\s'\"]*+|sig)=)"
    r"[^&\s'\"]+", re.IGNORECASE)
HUB_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")
# A secret has a digit within its first 200 characters; how long it is does not matter.
KEY_OPTION = re.compile(r"""(--(?:api-key|hf-token)(?:=|\s+)["']?)"""
                        r"""(?=[^\s"']{0,200}\d)[^\s"']{8,}""")
HOST_TOKEN = re.compile(r"\b(gh[pousr]_|github_pat_)\w{30,}")
LOGIN_HEADER = re.compile(r"(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:basic|bearer|token)\s+)?)"
                          r"[\w.+/=~-]{8,}", re.IGNORECASE)
# As vLLM logs its own flags. The end of a long list may be cut away.
KEY_LIST = re.compile(r"(\bapi[_-]?key[\"']?\s*[:=]\s*)\[[^\]\n]+\]?", re.IGNORECASE)
SET_VARIABLE = re.compile(r"""\b([A-Z][A-Z0-9_]*(?:TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY)=["']?)"""
                          r"""(?=[^\s"']{0,200}\d)[\w.+/=~-]{8,}""")
SECRET_NAME = re.compile(r"(TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|CREDENTIAL)", re.IGNORECASE)
LEAST_SECRET = 8
BINARY_SHARE = 0.1  # of characters that no text has
LINE_ENDS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
UNSEEN = {"Cc", "Cf", "Cs", "Cn"}  # control, format (direction changes), surrogate, unassigned


def visible(text: str) -> str:
    r"""Return ``text`` with every unseen character but newline and tab written out as ``\x1b``.

    An escape sequence cannot drive a terminal then, a change of direction cannot turn a line
    round, and XML, which has no place for control characters at all, can hold the rest.
    """
    if text.isprintable():
        return text  # most lines
    return "".join(char.encode("unicode_escape").decode("ascii")
                   if is_unseen(char) and char not in "\n\t" else char for char in text)


def is_unseen(char: str) -> bool:
    """Say whether a character shows nothing but may act: control, direction, surrogate."""
    return not (char.isprintable() or char in JOINERS) and unicodedata.category(char) in UNSEEN


def redact(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return ``text`` without passwords and tokens.

    In URLs, headers and what vLLM says of its own flags; after ``--api-key`` and ``NAME_TOKEN=``;
    of the hub and of GitHub. The values of secret variables go, too.

    A variable is secret by its name (``HF_TOKEN``, ``TWINE_PASSWORD``); values shorter than
    ``LEAST_SECRET`` characters would match by chance and stay.
    """
    shown = URL_SECRET.sub(r"\1***", URL_PASSWORD.sub(r"\1***@", text))
    shown = KEY_OPTION.sub(r"\1***", HUB_TOKEN.sub("hf_***", shown))
    shown = HOST_TOKEN.sub(r"\1***", LOGIN_HEADER.sub(r"\1***", shown))
    shown = SET_VARIABLE.sub(r"\1***", KEY_LIST.sub(r"\1[***]", shown))
    secrets = [value for name, value in environ.items()
               if SECRET_NAME.search(name) and len(value) >= LEAST_SECRET]
    for value in sorted(secrets, key=len, reverse=True):  # one may be the beginning of another
        shown = shown.replace(value, "***")
    return shown


def unbroken(text: str) -> str:
    r"""Return ``text`` with its line ends written out as ``\n``: a name of two lines stays one."""
    return "".join(char.encode("unicode_escape").decode("ascii") if char in LINE_ENDS else char
                   for char in text) if not LINE_ENDS.isdisjoint(text) else text


def one_line(text: str, limit: int) -> str:
    """Return ``text`` in one visible line of at most ``limit`` characters and a mark of the cut."""
    return cut_line(" ".join(text.split()), limit)


def cut_line(line: str, limit: int) -> str:
    """Return a line, its spaces as they are, visible and of at most ``limit`` characters."""
    shown = visible(line)
    return shown if len(shown) <= limit else shown[:limit] + " …"


def quoted(text: str, limit: int) -> str:
    """Return foreign text for a sentence: one line in quotes, "nothing", or "binary data"."""
    line = " ".join(text.split())
    if not line:
        return "nothing"
    return "binary data" if is_binary(line[:4 * limit]) else f'"{one_line(line, limit)}"'


def is_binary(text: str) -> bool:
    """Say whether decoded text is none: many of its characters are control or undecodable ones."""
    odd = sum(char == "\ufffd" or (is_unseen(char) and not char.isspace()) for char in text)
    return odd > BINARY_SHARE * len(text)


def cut(text: str, limit: int) -> str:
    """Return visible text of several lines, saying how much was left out."""
    shown = visible(text)
    if len(shown) <= limit:
        return shown
    return f"{shown[:limit]}\n… {len(shown) - limit:,} more characters: the record has all of it"


def pretty(text: str) -> str:
    """Return JSON with a line for each key; other text visible as it is. Pictures are cut."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return visible(text)
    if not isinstance(value, dict | list):
        return visible(text)
    return PICTURE.sub(_cut_picture, visible(json.dumps(value, indent=2, ensure_ascii=False)))


def _cut_picture(found: re.Match[str]) -> str:
    return f"{found[1]}… {len(found[2]):,} characters"
