"""Nights of a base: renewed like wheels, kept where a cell passes, put back where none does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from builder.bases.facts import facts_path
from builder.locking.base_lock import LockedBase, load_bases, write_bases
from builder.matrix.cells import Cell
from builder.nightly import bases
from builder.nightly.bases import FILE, BaseNights, bases_of, label_of
from builder.nightly.cycle import Cycle, Night, Ran
from builder.nightly.issues import FolderIssues
from tests.unit.cells_for_tests import make_cell
from tests.unit.locking.test_base_lock import make_base, make_deb
from tests.unit.nightly.test_cycle import CELL, Shop

KEY = (CELL.base_name, CELL.platform)
GOOD = Night(CELL.id, "promoted")
PUSHED = Night(CELL.id, "failed: promote (exit code 1)", failed=True, new_lock=True)
BAD = Night(CELL.id, "failed: smoke (exit code 1)", failed=True)


def base_of(version: str, image: str = "a") -> LockedBase:
    return make_base(KEY[1], name=KEY[0], packages=(make_deb("gcc", version),),
                     image_id=f"sha256:{64 * image}")


class Yard:
    """Bases that are renewed in pretence: ``newest`` is what the mirror has."""

    def __init__(self, folder: Path) -> None:
        self.locks, self.newest, self.code = folder / "locks", base_of("12.1"), 0
        self.issues = FolderIssues(folder / "issues")
        self.ran: list[str] = []
        self.locks.mkdir()
        self.lock(self.newest)
        self.nights = BaseNights(self.locks, folder / "memory", self.run, self.issues)

    def lock(self, base: LockedBase) -> None:
        write_bases(self.locks / FILE, {**load_bases(self.locks / FILE), base.key: base})
        facts_path(self.locks, base).parent.mkdir(exist_ok=True)
        facts_path(self.locks, base).write_bytes(base.image_id.encode())

    def run(self, words: Sequence[str]) -> Ran:
        self.ran.append(" ".join(words))
        if self.code:
            return Ran(self.code, ("error: no mirror answers",))
        self.lock(self.newest)
        return Ran(0)

    @property
    def locked(self) -> LockedBase:
        return load_bases(self.locks / FILE)[KEY]

    @property
    def facts(self) -> str:
        return facts_path(self.locks, self.locked).read_text()

    def night(self, *cells: tuple[Cell, Night]) -> Night:
        renewal = self.nights.renew(KEY)
        return self.nights.settle(renewal, cells)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def test_the_same_packages_are_nothing_new(yard: Yard) -> None:
    night = yard.night((CELL, BAD))
    assert (night.state, night.failed, night.changes) == ("nothing new", False, ())
    assert yard.ran == [f"base {KEY[0]} --upgrade --platform {KEY[1]}"]
    assert list(yard.nights.folder.iterdir()) == []


@pytest.mark.parametrize("passed", [GOOD, PUSHED])
def test_a_renewed_lock_stays_where_a_cell_passed_on_it(yard: Yard, passed: Night) -> None:
    yard.newest = base_of("12.2", "b")
    night = yard.night((CELL, BAD), (CELL, passed))
    assert (night.state, night.failed) == ("renewed", False)
    assert night.changes[0] == "gcc 12.1 -> 12.2"
    assert f"{CELL.id} passed on it" in night.notes
    assert yard.locked == yard.newest
    assert list(yard.nights.folder.iterdir()) == []


def test_a_lock_on_which_no_cell_passes_is_put_back_with_an_issue(yard: Yard) -> None:
    good, yard.newest = yard.locked, base_of("12.2", "b")
    other = make_cell(name="other").model_copy(update={"base_name": "another"})
    for _ in range(2):
        night = yard.night((CELL, BAD), (other, GOOD))
        assert night.state == "failed: no cell passed on the new packages"
        assert (yard.locked, yard.facts) == (good, good.image_id)
        (issue,) = yard.issues.folder.iterdir()
        assert "gcc 12.1 -> 12.2" in issue.read_text()
    yard.newest = base_of("12.3", "c")
    assert yard.night((CELL, GOOD)).notes[-1] == f"closed {label_of(KEY)}.md"
    assert yard.locked == yard.newest


def test_other_bases_stay_as_they_are_when_one_is_put_back(yard: Yard) -> None:
    beside = make_base("linux/amd64" if KEY[1] == "linux/arm64" else "linux/arm64", name=KEY[0])
    write_bases(yard.locks / FILE, {**load_bases(yard.locks / FILE), beside.key: beside})
    yard.newest = base_of("12.2", "b")
    yard.night((CELL, BAD))
    assert load_bases(yard.locks / FILE)[beside.key].image_id == beside.image_id
    assert yard.locked == base_of("12.1")


def test_a_base_that_cannot_be_renewed_stops_no_cell(yard: Yard) -> None:
    yard.code = 4
    night = yard.night((CELL, GOOD))
    assert night.state == "failed: base (exit code 4)"
    assert "no mirror answers" in (yard.issues.folder / f"{label_of(KEY)}.md").read_text()
    assert yard.locked == base_of("12.1")


def test_a_damaged_lock_is_the_result_of_its_base(yard: Yard) -> None:
    (yard.locks / FILE).write_text("[[base]")
    renewal = yard.nights.renew(KEY)
    assert renewal.night.failed
    assert yard.ran == []


@pytest.mark.parametrize("half", [True, False])
def test_after_a_night_that_was_killed_the_last_good_lock_is_still_known(yard: Yard, half: bool
                                                                         ) -> None:
    good, yard.newest = yard.locked, base_of("12.2", "b")
    yard.nights.renew(KEY)  # and no settle: killed
    if half:  # before the new lock was written down
        memory = yard.nights.folder / f"{label_of(KEY)}.json"
        memory.write_text(memory.read_text().replace(yard.newest.image_id, ""))
    night = yard.night((CELL, BAD))
    assert night.changes[0] == "gcc 12.1 -> 12.2"
    assert (yard.locked, yard.facts) == (good, good.image_id)


def test_a_lock_that_somebody_made_after_a_killed_night_is_the_last_good_one(yard: Yard) -> None:
    yard.newest = base_of("12.2", "b")
    yard.nights.renew(KEY)
    mine = base_of("12.9", "d")
    yard.lock(mine)
    yard.newest = base_of("13", "e")
    yard.night((CELL, BAD))
    assert yard.locked == mine


@pytest.mark.parametrize("text", ["", "{", '{"base": 1}', "[" * 2000])
def test_a_damaged_memory_is_left_aside(yard: Yard, text: str) -> None:
    yard.nights.folder.mkdir()
    (yard.nights.folder / f"{label_of(KEY)}.json").write_text(text)
    yard.newest = base_of("12.2", "b")
    yard.night((CELL, BAD))
    assert yard.locked == base_of("12.1")


def test_the_first_lock_of_a_base_stays(yard: Yard) -> None:
    write_bases(yard.locks / FILE, {})
    night = yard.night((CELL, BAD))
    assert night.changes[0].startswith("the first lock")
    assert yard.locked == yard.newest


def test_a_cell_on_a_renewed_base_is_built_and_hears_what_changed(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.night().cell(CELL)
    shop.ran.clear()
    cycle = Cycle(shop.locks, shop.run, shop.issues, shop.is_done,
                  {KEY: ("base slim: gcc 12.1 -> 12.2",)})
    night = cycle.cell(CELL)
    assert night.state == "promoted"
    assert night.changes == ("base slim: gcc 12.1 -> 12.2",)
    assert "build cpu" in shop.ran


def test_only_bases_of_packages_are_renewed_each_once() -> None:
    cuda = make_cell(name="c").model_copy(update={
        "base": CELL.base.model_copy(update={"flavour": "cuda"})})
    assert bases_of([CELL, CELL, cuda]) == [KEY]


def test_a_lock_that_cannot_be_put_back_on_a_full_disk_is_put_back_by_the_next_night(
        yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_words: object) -> None:
        raise OSError(28, "No space left on device")

    good, yard.newest = yard.locked, base_of("12.2", "b")
    with monkeypatch.context() as patch:
        patch.setattr(bases, "write_bases", full)
        night = yard.night((CELL, BAD))
    assert "could not be put back" in night.notes[0]
    assert yard.locked == yard.newest
    assert "the lock is the one of before" in yard.night((CELL, BAD)).notes
    assert yard.locked == good


def test_a_failed_renewal_leaves_no_lock_of_before_that_is_used_later(yard: Yard) -> None:
    yard.code = 4
    yard.night((CELL, GOOD))
    mine = base_of("12.9", "d")
    yard.lock(mine)
    yard.code, yard.newest = 0, base_of("13", "e")
    yard.night((CELL, BAD))
    assert yard.locked == mine
