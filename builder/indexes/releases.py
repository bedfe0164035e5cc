"""Which versions of a project the indexes offer for a target, oldest first."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping

from packaging.tags import Tag
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from builder.errors import NetworkError
from builder.indexes.http import Client, Pace, SourceError
from builder.indexes.listings import Listings, sources_for
from builder.indexes.settings import DEFAULT_INDEX, Sources
from builder.matrix.models import Index


def released(project: str, indexes: Mapping[str, Index], user: Sources, tags: Collection[Tag], *,
             nightlies: bool = False) -> tuple[str, ...]:
    """Return the versions of which some index has a wheel with one of ``tags``.

    Development builds and candidates are left out unless ``nightlies``. Raises NetworkError where
    no index answers.
    """
    listings = Listings(Client(user), Pace(), threading.Event())
    found: set[Version] = set()
    failures: dict[str, str] = {}
    for source in sources_for(project, DEFAULT_INDEX, indexes, user):
        try:
            files = {link.file for link in listings.project(source, project)}
        except SourceError as error:
            failures[source.name] = error.reason
            continue
        found.update(version for version in _versions(files, project, tags)
                     if nightlies or not version.is_prerelease)
    if not found and failures:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failures.items())
        raise NetworkError(f"no index says which versions of {project} there are: {reasons}",
                           where=project, next_step="run the same command again")
    return tuple(str(version) for version in sorted(found))


def _versions(files: Collection[str], project: str, tags: Collection[Tag]) -> Iterator[Version]:
    for file in files:
        try:
            name, version, _, of_file = parse_wheel_filename(file)
        except ValueError:  # no name of a wheel, or a number of more digits than Python parses
            continue
        if name == project and not of_file.isdisjoint(tags):
            yield Version(version.public)  # +cu130 and its like are builds of one release
