"""Pages of the Simple API (PEP 503 and 691), and of flat folders of wheels, into links.

The standard library's parser, not a tree builder: a project's page may list ten thousand files,
and the general libraries take ten times as long for it (seconds, for each of 150 wheels).
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
ACCEPT = f"{JSON_TYPE}, application/vnd.pypi.simple.v1+html;q=0.5, text/html;q=0.1"
ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".egg", ".exe")
PIECE = 16_384  # characters given to the parser of HTML at once
READ_S = 30.0  # for a whole page; one of 10,000 files takes about 1 s
MAX_LISTED = 500_000  # files of one page; the most seen are 10,000
_HTML_TYPES = ("application/vnd.pypi.simple.v1+html", "text/html")


@dataclass(frozen=True)
class Listed:
    """One file that a page lists: its whole address, and its sha256 where the page says it."""

    url: str
    sha256: str | None

    @property
    def file(self) -> str:
        """Return the file's name, which is the last part of its address."""
        return unquote(urlsplit(self.url).path.rpartition("/")[2])


def parse(body: bytes, content_type: str, url: str) -> list[Listed]:
    """Return what the page at ``url`` lists; raises ValueError when it is no such page."""
    kind = content_type.partition(";")[0].strip().lower() or "text/html"
    if kind == JSON_TYPE:
        return parse_json(body, url)
    if kind in _HTML_TYPES:
        return parse_html(body, url)
    raise ValueError(f"{kind} is not a kind of page that the Simple API has")


def lists_files(body: bytes, content_type: str, url: str) -> bool:
    """Say whether a page is a project's page of an index; a login page or a portal is none."""
    try:
        return any(entry.file.endswith(ARCHIVES) for entry in parse(body, content_type, url))
    except ValueError:
        return False


def parse_html(body: bytes, url: str) -> list[Listed]:
    """Read the links of an HTML page, as PEP 503 writes them; raises ValueError for a broken one.

    Given in pieces: in one, the parser needs hours for some damaged pages of a few megabytes.
    """
    page, text, end = _Page(url), body.decode("utf-8", "replace"), time.monotonic() + READ_S
    try:
        for start in range(0, len(text), PIECE):
            page.feed(text[start:start + PIECE])
            if time.monotonic() > end:
                raise ValueError(f"its HTML is not read after {READ_S:.0f} s")
    except AssertionError as error:  # the parser's own, for a broken declaration
        raise ValueError(f"its HTML is broken: {error}") from error
    return page.found


def parse_json(body: bytes, url: str) -> list[Listed]:
    """Read a project's page in JSON (PEP 691); raises ValueError when its shape is another."""
    try:
        return [Listed(urljoin(url, entry["url"]), _sha256(entry["hashes"].get("sha256")))
                for entry in json.loads(body)["files"]]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a project's page: {error}") from error


def _sha256(value: object) -> str | None:
    return value if isinstance(value, str) else None


class _Page(HTMLParser):
    """Collects the anchors of a page; ``<base>`` moves what relative ones are relative to."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.found: list[Listed] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = next((value for name, value in attrs if name == "href" and value), None)
        if address is None:
            return
        if tag == "base":
            self._url = urljoin(self._url, address)
        elif tag == "a":
            target, fragment = urldefrag(urljoin(self._url, address))
            digest = re.search(r"(?:^|&)sha256=([0-9a-fA-F]{64})(?:&|$)", fragment)
            self.found.append(Listed(target, digest[1].lower() if digest else None))
            if len(self.found) > MAX_LISTED:
                raise ValueError(f"it lists more than {MAX_LISTED:,} files")
