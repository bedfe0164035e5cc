"""Where a wheel may come from: named sources, and the links to one file name and sha256.

A source is known by its *name* everywhere; its address may hold credentials and is never shown.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

from builder.indexes.http import Client, Pace, SourceError, body, with_retries
from builder.indexes.settings import DEFAULT_INDEX, FIND_LINKS, Sources
from builder.indexes.simple_api import ACCEPT, Listed, parse, parse_html
from builder.limits import PAGE_BYTES, read_file
from builder.matrix.models import Index


@dataclass(frozen=True)
class Source:
    """An index (a page a project) or, where ``flat``, one folder or page of wheels."""

    name: str
    address: str
    flat: bool = False

    @property
    def folder(self) -> Path | None:
        """Return the path of a source on this machine, None for one behind HTTP."""
        return local_path(self.address)


@dataclass(frozen=True)
class Link:
    """One file that a source offers; ``sha256`` is None where the listing does not say."""

    source: str
    file: str
    url: str
    sha256: str | None


def local_path(address: str) -> Path | None:
    """Return the path that an address or a plain path means; None for other machines'."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return None if parts.scheme in ("http", "https") else Path(address).expanduser()


def sources_for(project: str, locked_index: str, indexes: Mapping[str, Index], user: Sources
                ) -> tuple[Source, ...]:
    """Return the sources to ask for a project's wheel, in order; each is asked at most once.

    What lies on this machine comes first, since it costs no transfer and the sha256 decides
    anyway; then the index that the lock names, the user's default index, the rest.
    """
    named = [Source(name, index.url) for name, index in indexes.items()
             if project in index.packages]
    everything = [
        *named, Source(DEFAULT_INDEX, user.default_index),
        *(Source(f"extra index {number}", url)
          for number, url in enumerate(user.extra_indexes, 1)),
        *(Source(f"{FIND_LINKS} {number}", url, flat=True)
          for number, url in enumerate(user.find_links, 1))]
    return tuple(sorted(everything, key=lambda source: (
        source.folder is None, source.name != locked_index, source.name != DEFAULT_INDEX)))


class Listings:
    """What sources offer, each page asked for once; safe in many threads.

    A source that could not be reached stays aside for the rest of the run: a closure has
    hundreds of wheels, and each would wait for the same dead host.
    """

    def __init__(self, client: Client, pace: Pace, stop: threading.Event) -> None:
        """Ask with ``client`` at ``pace``, until ``stop``."""
        self._client, self._pace, self._stop = client, pace, stop
        self._known: dict[tuple[str, str], tuple[Link, ...]] = {}
        self._down: dict[str, SourceError] = {}

    def links(self, source: Source, project: str, file: str) -> tuple[Link, ...]:
        """Return a project's links to files of this name; raises SourceError."""
        return tuple(link for link in self.project(source, project) if link.file == file)

    def project(self, source: Source, project: str) -> tuple[Link, ...]:
        """Return all links of a project; raises SourceError."""
        if source.name in self._down:
            raise self._down[source.name]
        page = source.address if source.flat else f"{source.address.rstrip('/')}/{project}/"
        if (source.name, page) not in self._known:
            self._known[source.name, page] = tuple(self._read(source, page))
        return self._known[source.name, page]

    def _read(self, source: Source, page: str) -> Iterator[Link]:
        path = local_path(page)
        if path is not None:
            return local_links(source, path)
        try:
            return with_retries(lambda: self._ask(source, page), self._pace, self._stop)
        except SourceError as failure:
            if failure.retry:  # asked again and again in vain; a 403 is about one page only
                self._down[source.name] = failure
            raise

    def _ask(self, source: Source, address: str) -> Iterator[Link]:
        reply = self._client.get(address, accept=ACCEPT)
        if reply.status_code != 200:
            reply.close()
            return iter(())
        page = body(reply)
        try:
            found = parse(page, reply.headers.get("Content-Type", ""), reply.url)
        except ValueError as error:
            raise SourceError("answered with something else than a package index's page",
                              retry=False) from error
        return _links(source, found)


def local_links(source: Source, path: Path) -> Iterator[Link]:
    """Return the links of a folder of wheels, of its ``index.html``, or of an HTML file."""
    page = path / "index.html" if path.is_dir() else path
    if page.is_file() and page.suffix == ".html":
        data = read_file(page, PAGE_BYTES, "page of wheels")
        yield from _links(source, parse_html(data, page.absolute().as_uri()))
    if path.is_dir():
        yield from (Link(source.name, entry.name, entry.absolute().as_uri(), None)
                    for entry in sorted(path.glob("*.whl")))


def _links(source: Source, found: Iterable[Listed]) -> Iterator[Link]:
    for entry in found:
        yield Link(source.name, entry.file, with_credentials(entry.url, source.address),
                   entry.sha256)


def with_credentials(url: str, index: str) -> str:
    """Give ``url`` the credentials of ``index`` where both are on one host, as pip does."""
    there, here = urlsplit(url), urlsplit(index)
    credentials, _, host = here.netloc.rpartition("@")
    if not credentials or (there.scheme, there.netloc) != (here.scheme, host):
        return url
    return urlunsplit(there._replace(netloc=f"{credentials}@{host}"))
