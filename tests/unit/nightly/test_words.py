"""The difference of two locks in words."""

from __future__ import annotations

from builder.locking.lock import Lock
from builder.nightly.words import MOST, difference
from tests.unit.cells_for_tests import make_cell, make_lock, make_wheel
from tests.unit.test_sbom import PATCH


def a_lock(*patches: str, **wheels: str) -> Lock:
    made = [make_wheel(name, version).model_copy(
        update={"sha256": f"{hash((name, version)) & 0xffffffff:064x}", "size": 1000})
        for name, version in wheels.items()]
    return make_lock(make_cell(), *made).model_copy(update={"patches": tuple(
        PATCH.model_copy(update={"name": name[0], "sha256": name[1] * 64}) for name in patches)})


def test_versions_patches_and_sizes_are_said() -> None:
    old = a_lock("aa", "bb", "dd", torch="1", gone="1", same="1")
    new = a_lock("aa", "bc", "ee", torch="2", new="1", same="1")
    assert difference(old, new) == [
        "gone 1 is gone", "new 1 is new", "torch 1 -> 2", "patch b has another diff",
        "patch d is no longer needed", "patch e is new",
        "wheels 3.0 kB -> 3.0 kB, 2.0 kB of them new"]


def test_the_same_lock_says_nothing_and_the_first_says_so() -> None:
    assert difference(a_lock(torch="1"), a_lock(torch="1")) == []
    assert difference(None, a_lock(torch="1")) == ["the first lock: 1 wheels, 1.0 kB"]


def test_a_long_list_is_cut() -> None:
    many = {f"p{number}": "1" for number in range(MOST + 5)}
    assert difference(a_lock(), a_lock(**many))[MOST] == "and 5 more"
