"""A look into the store: it finds what the store finds, and changes nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from cells_for_tests import make_wheel

from builder.errors import LockError
from builder.locking.lock import LockedWheel
from builder.store.content_store import Store
from builder.store.looking import Looking

DATA = b"the bytes of a wheel"


def a_wheel(size: int = len(DATA)) -> LockedWheel:
    return make_wheel("spam", "1.0").model_copy(
        update={"sha256": hashlib.sha256(DATA).hexdigest(), "size": size})


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "spam.whl").write_bytes(DATA)
    Store(tmp_path / "cache").add_wheel(a_wheel(), tmp_path / "spam.whl")
    return tmp_path / "cache"


def names(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize("stamped", [True, False])
def test_a_whole_wheel_is_found_and_nothing_is_written(cache: Path, stamped: bool) -> None:
    if not stamped:
        next((cache / "stamps").iterdir()).unlink()
    before = names(cache)
    look = Looking(cache)
    path = look.find_wheel(a_wheel())
    assert path is not None
    assert path.read_bytes() == DATA
    assert look.find_wheel(a_wheel()) == path
    assert names(cache) == before


def test_a_damaged_wheel_is_not_found_and_stays(cache: Path) -> None:
    (path,) = cache.glob("wheels/*/*.whl")
    path.unlink()
    path.write_bytes(b"cut short")
    before = names(cache)
    assert Looking(cache).find_wheel(a_wheel()) is None
    assert names(cache) == before


def test_without_a_cache_none_is_made(tmp_path: Path) -> None:
    assert Looking(tmp_path / "cache").find_wheel(a_wheel()) is None
    assert names(tmp_path) == set()


def test_a_wrong_size_is_the_locks_fault(cache: Path) -> None:
    with pytest.raises(LockError, match="has 19 bytes"):
        Looking(cache).find_wheel(a_wheel(19))
