"""Dated tags: ``tf5-20261121`` is the image that ``tf5`` became on that day, and stays it.

A second promotion on one day is ``tf5-20261121.2``, so that no name is ever given twice.
"""

from __future__ import annotations

import re

from builder.promotion.log import Entry
from builder.registry.repository import Manifest, Repository

_DATED = re.compile(r"(.+)-(\d{8})(?:\.(\d+))?")
MOST_A_DAY = 1000


def is_dated(name: str, tag: str) -> bool:
    """Say whether a tag is a dated one of the moving tag."""
    parts = _DATED.fullmatch(name)
    return parts is not None and parts[1] == tag


def give_dated(repository: Repository, entry: Entry, manifest: Manifest) -> str:
    """Give the image of a promotion its dated tag, unless it has one of that day; return it."""
    first = f"{entry.tag}-{entry.time[:10].replace('-', '')}"
    for number in range(1, MOST_A_DAY):
        name = first if number == 1 else f"{first}.{number}"
        there = repository.replaceable(name)
        if there is None:
            repository.point(name, manifest)
            return name
        if there.digest == manifest.digest:
            return name
    return ""
