"""Badges: well-formed SVG that never claims a GB10 that was not there."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from report_records import HOSTILE
from site_samples import sample

from builder.site.badge import badge, file_name, words
from builder.site.evidence import verdict_of


def test_what_a_badge_says() -> None:
    assert words(verdict_of([])) == "no verdict; not verified on GB10"
    assert words(verdict_of([sample(1, "cpu", labels={})])) == (
        "passed level 2 on CPU; not verified on GB10")
    assert words(verdict_of([sample(1, "tf5", labels={})])) == "passed level 2 on GB10"
    assert words(verdict_of([sample(6, "tf5")])) == "failed; not verified on GB10"
    assert words(verdict_of([sample(1, "tf5")])) == (
        "sample: passed level 2 on GB10; not verified on GB10")


@pytest.mark.parametrize("cell", ["cpu", HOSTILE, "", "a" * 500])
def test_it_is_well_formed_and_has_a_safe_name(cell: str) -> None:
    root = ElementTree.fromstring(badge(cell, verdict_of([])))
    assert {one.tag.rpartition("}")[2] for one in root.iter()} == {
        "svg", "title", "rect", "path", "g", "text"}
    assert root.attrib["aria-label"].endswith("not verified on GB10")
    assert set(file_name(cell)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-._")
    assert not file_name(cell).startswith(".")


def test_two_cells_never_share_a_file() -> None:
    names = ["cpu", "CPU", "c/pu", "c_pu", "..", "a" * 60, "a" * 61, "a" * 62]
    assert len(set(map(file_name, names))) == len(names)
    assert file_name("tf5-0.19") == "tf5-0.19"
