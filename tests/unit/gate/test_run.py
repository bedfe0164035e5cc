"""The gate as a stage: a kept verdict reads neither base nor wheels; a base may be unknown."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cells_for_tests import GPU, make_cell, make_lock, make_wheel
from gate_facts import a_base, a_wheel

from builder.binaries.facts import BaseFacts
from builder.fetch.wheels import FetchedWheels
from builder.gate import judge, run
from builder.gate.run import BaseSource, gate_cell, own_base
from builder.locking.findings import FindingCode


def workspace(folder: Path) -> Any:
    return SimpleNamespace(cache=folder, locks=folder / "locks", registry="r")


def test_a_verdict_is_reached_once_and_then_found_by_digests(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, asked = make_cell(GPU), list[str]()
    wheel = make_wheel("vllm", "0.32.0")
    lock = make_lock(cell, wheel)
    monkeypatch.setattr(judge, "read_wheels", lambda *_: (a_wheel("vllm", "0.32.0"),))

    def load() -> BaseFacts:
        asked.append("base")
        return a_base()

    def paths() -> FetchedWheels:
        asked.append("wheels")
        return FetchedWheels(lock, {wheel: tmp_path / "x.whl"})

    source = BaseSource(a_base().digest, load)
    first = gate_cell(workspace(tmp_path), cell, lock, source, paths)
    again = gate_cell(workspace(tmp_path), cell, lock, source, paths)
    assert asked == ["base", "wheels"]
    assert (first.cached, again.cached) == (False, True)
    assert again.findings == first.findings


def test_a_base_without_a_lock_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = own_base(workspace(tmp_path), None)
    assert (source.digest, source.load()) == ("", None)
    cell = make_cell(GPU)
    wheel = make_wheel("vllm", "0.32.0")
    monkeypatch.setattr(judge, "read_wheels", lambda *_: (a_wheel("vllm", "0.32.0"),))
    lock = make_lock(cell, wheel)
    report = gate_cell(workspace(tmp_path), cell, lock, source,
                       lambda: FetchedWheels(lock, {wheel: tmp_path}))
    assert FindingCode.BASE_UNKNOWN in {finding.code for finding in report.findings}
    assert report.not_judged


def test_committed_facts_need_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "committed", lambda *_: a_base())
    monkeypatch.setattr(run.Engine, "connect", staticmethod(lambda: pytest.fail("no engine here")))
    locked: Any = SimpleNamespace(name="slim", image_id=a_base().digest)
    source = own_base(workspace(tmp_path), locked)
    assert source.digest == a_base().digest
    assert source.load() == a_base()
