"""A service that keeps what Debian's mirrors drop: a named source beside the user's own mirror."""

from __future__ import annotations

from string import Formatter
from typing import Annotated

from pydantic import AfterValidator

from builder.model import Frozen, Link
from builder.wording import WrongValueError

STEP = 'write it like "https://snapshot.debian.org/archive/{archive}/{time}"'
PLACES = ("archive", "time")


def snapshot_address(text: str) -> str:
    """Accept an address with ``{archive}`` and ``{time}`` to be filled; else ValueError."""
    try:
        places = [place for place in Formatter().parse(text) if place[1] is not None]
    except ValueError as error:
        raise WrongValueError(f"not an address with places to fill: {error}", STEP) from error
    if sorted({str(field) for _, field, _, _ in places}) != sorted(PLACES):
        raise WrongValueError("must hold {archive} and {time}, and no other place to fill", STEP)
    if any(spec or conversion for _, _, spec, conversion in places):
        raise WrongValueError("a place to fill is {archive} or {time}, without a format", STEP)
    return text


class Snapshot(Frozen):
    """A snapshot service, asked only for locked packages that the user's mirror has dropped.

    ``url`` is filled with an archive (``debian``, ``debian-security``) and with the time of the
    base's lock (``20261121T235959Z``). ``SPARKYARD_DEBIAN_SNAPSHOT`` overrides it.
    """

    url: Annotated[Link, AfterValidator(snapshot_address)]
    description: str = ""
