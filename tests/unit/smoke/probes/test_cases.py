"""The battery as data: for whom each case is, and fields that only its kind has."""

from __future__ import annotations

from typing import Any

import pytest

from builder.smoke.client import Client
from builder.smoke.probes.cases import Battery, FilledCase, battery, plain
from builder.smoke.probes.run import run
from tests.unit.fake_openai import Fake
from tests.unit.smoke.probes.asking import ABLE, TINY, beyond, case, served

__all__ = ["served"]  # the fixture


def test_the_tiny_model_and_a_real_one_share_all_but_a_few_cases() -> None:
    """What either is not asked stands in the data, and each has its own of the same kind."""
    assert set(beyond(ABLE)) == {
        "text: long answer", "text: long answer, streamed", "tools: full loop",
        "context: filled to nine tenths", "refused: a picture, by a model that sees none"}
    assert {name for name in beyond(TINY) if not name.startswith(("vision", "refused"))
            } == {"text: essay", "text: essay, streamed", "tools: loop in words",
                  "context: needles at the start and in the middle"}
    assert "word for word" in beyond(TINY)["text: essay"]
    assert "embedded model was trained" in beyond(ABLE)["tools: full loop"]


def test_a_request_shows_its_pictures_by_name(served: tuple[Client, Fake]) -> None:
    found = run(served[0], case("vision: drawn scene"))
    assert "picture:house" in found.request
    assert "base64" not in found.request


@pytest.mark.parametrize(("change", "words"), [
    ({"kind": "nonsense"}, "does not match any of the expected tags"),
    ({"times": 4}, "times"), ({"fill": {"share": 1, "sentences": []}}, "fill"),
    ({"kind": "twice"}, "times"), ({"kind": "together", "times": 4}, "messages"),
    ({"kind": "refused", "contains": ["x"]}, "contains"), ({"kind": "loop"}, "results")])
def test_a_field_belongs_to_its_kind(change: dict[str, Any], words: str) -> None:
    raw = {"name": "x", "kind": "answer", "messages": [{"role": "user", "content": "?"}]}
    Battery.model_validate({"tools": {}, "pictures": {}, "cases": [raw]})
    with pytest.raises(ValueError, match=words):
        Battery.model_validate({"tools": {}, "pictures": {}, "cases": [{**raw, **change}]})


def test_every_kind_is_in_the_battery_and_names_are_there_once() -> None:
    assert len({case.kind for case in battery().cases}) == 11
    assert len({case.name for case in battery().cases}) == len(battery().cases)


def test_needles_lie_where_they_are_told_to() -> None:
    needles = case("context: needles at the start and in the middle")
    assert isinstance(needles, FilledCase)
    text = needles.fill.text(100)
    assert text.index("marigold") < 60
    assert 0.4 < text.index("tungsten") / len(text) < 0.6


def test_a_case_that_asks_others_sends_no_messages_of_its_own() -> None:
    assert plain(case("4 requests at once"), "tiny")["messages"] == []
