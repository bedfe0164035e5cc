"""Dated tags: what a tag was on a day, under a name that is never given twice."""

from __future__ import annotations

from builder.promotion.dated import give_dated, is_dated
from builder.promotion.log import Entry
from tests.unit.fake_repository import Memory, put_image, repository


def test_a_second_image_of_one_day_gets_a_name_of_its_own() -> None:
    memory = Memory()
    there, first, second = repository(memory), put_image(memory, "1"), put_image(memory, "2")
    entry = Entry(number=1, previous="", action="promote", tag="tf5", target=first.digest,
                  replaced="", records=(), time="2026-11-21T02:17:00Z", run="r")
    assert give_dated(there, entry, first) == "tf5-20261121"
    assert give_dated(there, entry, second) == "tf5-20261121.2"
    assert give_dated(there, entry, first) == "tf5-20261121"
    assert memory.tags == {"tf5-20261121": first.digest, "tf5-20261121.2": second.digest}


def test_a_name_that_a_full_disk_damaged_is_written_again() -> None:
    memory = Memory(damaged={"tf5-20261121"})
    there, image = repository(memory), put_image(memory, "1")
    entry = Entry(number=1, previous="", action="promote", tag="tf5", target=image.digest,
                  replaced="", records=(), time="2026-11-21T02:17:00Z", run="r")
    assert give_dated(there, entry, image) == "tf5-20261121"
    assert (memory.tags, memory.damaged) == ({"tf5-20261121": image.digest}, set())


def test_dated_tags_are_known_by_their_form() -> None:
    assert is_dated("tf5-20261121.2", "tf5")
    assert not any(is_dated(name, "tf5") for name in ("tf5", "tf5-2026", "cpu-20261121"))
