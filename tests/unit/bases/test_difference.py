"""What changed between two locks of a base, in words."""

from __future__ import annotations

from builder.bases.difference import MOST, difference
from tests.unit.locking.test_base_lock import make_base, make_deb

OLD = make_base(packages=(make_deb("adduser"), make_deb("gcc", "12.1"), make_deb("make")))


def test_when_and_whence_do_not_count() -> None:
    other = OLD.model_copy(update={"epoch": 9, "snapshot": "20261121T235959Z",
                                   "digest": "sha256:" + 64 * "d"})
    assert difference(OLD, other) == []


def test_packages_are_named_with_both_versions() -> None:
    new = make_base(packages=(make_deb("adduser"), make_deb("gcc", "12.2"), make_deb("zlib1g")),
                    recipe="sha256:" + 64 * "e", python="3.11.9")
    assert difference(OLD, new) == [
        "gcc 12.1 -> 12.2", "make 1.0 is gone", "zlib1g 1.0 is new", "its recipe has changed",
        "Python 3.11.2 -> 3.11.9", "packages 9 B -> 9 B"]


def test_other_bytes_of_one_version_are_a_difference() -> None:
    deb = make_deb("make").model_copy(update={"sha256": 64 * "c"})
    new = OLD.model_copy(update={"packages": (*OLD.packages[:2], deb)})
    assert difference(OLD, new)[0] == "make 1.0 has other bytes"


def test_the_first_lock_and_a_long_list() -> None:
    assert difference(None, OLD) == ["the first lock: 3 packages, 9 B"]
    many = make_base(packages=tuple(make_deb(f"p{n}") for n in range(MOST + 5)))
    assert difference(make_base(packages=()), many)[-2] == "and 5 more"
