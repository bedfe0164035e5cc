"""The log of a moving tag: entries that nothing writes over, and which of several counts."""

from __future__ import annotations

import pytest

from builder.errors import VerdictError
from builder.promotion.log import (
    Entry,
    Logged,
    State,
    append,
    aside,
    chain,
    entry_tag,
    good_targets,
    is_log_tag,
    read_entry,
    read_state,
)
from tests.unit.fake_repository import Memory, put_image, repository

A, B, C = (f"sha256:{letter * 64}" for letter in "abc")


def an_entry(number: int = 1, previous: str = "", target: str = A, run: str = "r",
             action: str = "promote") -> Entry:
    return Entry(number=number, previous=previous, action=action, tag="cpu", target=target,
                 replaced="", records=(), time="2026-01-01T00:00:00Z", run=run)


def test_entries_are_read_back_by_number_and_digest() -> None:
    there = repository(Memory())
    first = append(there, an_entry())
    second = append(there, an_entry(2, first.digest, B))
    append(there, an_entry().model_copy(update={"tag": "cpu-0.19"}))
    state = read_state(there, "cpu")
    assert (state.moving, state.newest) == ("", (second,))
    assert [*chain(there, state.head)] == [second, first]
    assert read_entry(there, entry_tag("cpu", 2, second.digest)) == second


def test_of_two_with_one_number_the_tag_decides_and_else_the_smaller_digest() -> None:
    memory = Memory()
    there = repository(memory)
    image = put_image(memory, "x")
    one, two = append(there, an_entry(run="1")), append(there, an_entry(
        target=image.digest, run="2"))
    state = read_state(there, "cpu")
    assert len(state.newest) == 2
    assert state.head == min(one, two, key=lambda entry: entry.digest)
    memory.tags["cpu"] = image.digest
    assert read_state(there, "cpu").head == two
    assert aside(there, "cpu", [two]) == [entry_tag("cpu", 1, one.digest)]


def test_what_is_no_entry_under_its_tag_does_not_count() -> None:
    memory = Memory()
    there = repository(memory)
    first = append(there, an_entry())
    memory.tags["cpu-log-000009-" + "0" * 12] = first.digest
    memory.tags["cpu-log-000010-" + "0" * 12] = put_image(memory, "x").digest
    assert read_state(there, "cpu").newest == (first,)
    assert aside(there, "cpu", [first]) == ["cpu-log-000009-000000000000",
                                            "cpu-log-000010-000000000000"]


@pytest.mark.parametrize(("second", "reason"), [
    (an_entry(2, C), "is gone"), (an_entry(2, ""), "names no entry before it"),
    (an_entry(3, B), "of another number")])
def test_a_broken_chain_is_said(second: Entry, reason: str) -> None:
    there = repository(Memory())
    first = append(there, an_entry())
    if second.previous == B:
        second = second.model_copy(update={"previous": first.digest})
    with pytest.raises(VerdictError, match=reason):
        list(chain(there, append(there, second)))


def test_an_empty_log_has_no_head() -> None:
    assert State("", ()).head is None
    assert list(chain(repository(Memory()), None)) == []


def test_the_tags_of_a_log_are_known_by_their_form() -> None:
    assert is_log_tag(entry_tag("tf5-unverified", 12, A))
    assert not any(map(is_log_tag, ("tf5", "tf5-20261121", "cpu-log", "sha256-" + "0" * 64,
                                         f"cpu-log-{'9' * 5000}-{'0' * 12}")))


@pytest.mark.parametrize(("steps", "targets"), [
    ("pA", "A"), ("pA pB pC", "CBA"), ("pA pB rA", "A"), ("pA pB rA pC rA", "A"),
    ("pA pB pC rB", "BA"), ("pA pB pA", "ABA"), ("rB", "B")])
def test_what_was_moved_back_from_is_not_good(steps: str, targets: str) -> None:
    digests = {"A": A, "B": B, "C": C}
    entries = [Logged("", an_entry(target=digests[step[1]], action={
        "p": "promote", "r": "rollback"}[step[0]])) for step in steps.split()]
    assert good_targets(entries) == [digests[letter] for letter in targets]
