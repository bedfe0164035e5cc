"""The catalogue on the page: which locked images a failure touches, and where it was seen."""

from __future__ import annotations

from site_samples import a_lock, sample

from builder.diagnosis.catalogue import load
from builder.record.models import KnownFailure
from builder.site.failures import failures, touched


def test_only_versions_that_are_all_affected_touch_an_image() -> None:
    locks = {"old": a_lock("1.0", "1.0"), "new": a_lock("2.0", "1.0")}
    assert touched({"p0": "<2"}, locks) == ("old",)
    assert touched({"p0": "<3", "p1": "<2"}, locks) == ("old", "new")
    assert touched({"p0": "<2", "missing": "<2"}, locks) == ()
    assert touched({}, locks) == ()


def test_a_failure_that_was_seen_comes_first() -> None:
    name = load().issues[-1].name
    seen = sample(6, "tf5", diagnosis=(KnownFailure(name=name, cause="x"),
                                       KnownFailure(name="other", cause="x", ruled_out="no")))
    found = failures(load(), {}, [seen, seen])
    assert (found[0].name, found[0].seen) == (name, 2)
    assert sum(one.seen for one in found) == 2
    assert len(found) == len(load().issues) + len(load().reported)


def test_nothing_seen_and_nothing_locked_still_lists_all() -> None:
    assert {one.seen for one in failures(load(), {}, [])} == {0}
