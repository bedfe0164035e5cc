"""The address of a snapshot service: two places to fill, and nothing else."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from builder.matrix.snapshot import Snapshot

GOOD = "https://s.example/archive/{archive}/{time}"


def test_a_good_address_is_kept() -> None:
    assert Snapshot(url=GOOD).url == GOOD


@pytest.mark.parametrize(("url", "says"), [
    ("https://s.example/{archive}", "must hold {archive} and {time}"),
    ("https://s.example/{archive}/{time}/{host}", "no other place"),
    ("https://s.example/{archive}/{time!r}", "without a format"),
    ("https://s.example/{archive}/{time", "places to fill"),
    ("http://s.example/{archive}/{time}", "https://")])
def test_others_are_refused(url: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Snapshot(url=url)
