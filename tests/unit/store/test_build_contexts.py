"""Which name a build goes to the engine under."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.store.build_contexts import NAMES, choose, remember
from builder.store.content_store import Store, StoredLayer


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def layers(*names: str, size: int = 100) -> tuple[StoredLayer, ...]:
    return tuple(StoredLayer(name, size, Path(name)) for name in names)


def build(store: Store, *names: str, engine: str = "one") -> tuple[str, int]:
    context = choose(store, layers(*names), engine)
    remember(context, layers(*names))
    return context.path.name, context.held_bytes


def test_every_name_leads_to_the_layers(store: Store) -> None:
    (store.layers / "x.tar").write_bytes(b"x")
    assert (choose(store, layers("x"), "one").path / "x.tar").read_bytes() == b"x"


def test_a_cell_that_shares_most_bytes_goes_by_the_same_name(store: Store) -> None:
    first, kept = build(store, "a", "b", "c")
    assert kept == 0
    assert build(store, "a", "b", "d") == (first, 200)


def test_two_images_that_take_turns_keep_a_name_each(store: Store) -> None:
    one, _ = build(store, "a", "b")
    other, _ = build(store, "x", "y")
    assert one != other
    assert build(store, "a", "b") == (one, 200)
    assert build(store, "x", "y") == (other, 200)


def test_sharing_little_does_not_displace_a_copy(store: Store) -> None:
    first, _ = build(store, "a", "b", "c")
    other, _ = build(store, "a", "x", "y")
    assert first != other


def test_the_name_that_was_not_used_longest_is_taken_over(store: Store) -> None:
    names = [build(store, digest)[0] for digest in ("a", "b", "c")]
    assert sorted(names) == sorted(NAMES)
    build(store, "a")
    assert build(store, "d") == (names[1], 0)


def test_what_one_engine_has_says_nothing_of_another(store: Store) -> None:
    build(store, "a", "b", engine="one")
    assert build(store, "a", "b", engine="another")[1] == 0
    assert build(store, "a", "b", engine="one")[1] == 200


@pytest.mark.parametrize("damage", ["{", "[]", '{"sparkyard-layers-a": 7}'])
def test_a_damaged_ledger_costs_a_transfer_and_nothing_else(store: Store, damage: str) -> None:
    name, _ = build(store, "a")
    choose(store, layers("a"), "one").ledger.write_text(damage)
    assert choose(store, layers("a"), "one").held_bytes == 0
    assert build(store, "a")[0] == name
