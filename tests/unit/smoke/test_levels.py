"""Levels 1a and 1b: each result a check, and a script that does not reach its end is one too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from builder import process
from builder.engine.client import Container, RunSpec
from builder.engine.container import ContainerState
from builder.errors import EngineError
from builder.locking.lock import read_lock
from builder.record.check import Check, Status
from builder.smoke import levels
from builder.smoke.container_end import LifeEvents
from builder.smoke.levels import run_scripts, script_input
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[3]
GOOD = '@@ {"check": "import torch", "status": "pass", "detail": "2.11"}'


class Box:
    """A container whose scripts are Python of this machine."""

    spec = RunSpec("r/cpu:cpu")

    def __init__(self, *programs: str, state: str = "running", code: int = 0) -> None:
        self.programs = list(programs)
        self.is_now = ContainerState(state, code, False, "")

    def state(self) -> ContainerState:
        return self.is_now

    @contextmanager
    def stream_exec(self, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        with process.stream([sys.executable, "-c", self.programs.pop(0)]) as child:
            yield child


class Events:
    """The engine's events: nobody stopped the container, or somebody did."""

    def __init__(self, *, stopped: bool = False) -> None:
        self.stopped = stopped

    def await_death(self) -> None:
        """Wait for nothing."""

    def raise_if_stopped(self) -> None:
        if self.stopped:
            raise EngineError("stopped from outside")


def checks_of(box: Box, log: list[str], *, stopped: bool = False) -> list[Check]:
    names = [f"script{number}.py" for number in range(len(box.programs))]
    return run_scripts(cast(Container, box), cast(LifeEvents, Events(stopped=stopped)), names, log)


def test_results_are_checks_and_the_rest_is_the_log() -> None:
    log: list[str] = []
    told: list[Check] = []
    box = Box(f"print('INFO hello'); print({GOOD!r}); print()")
    checks = run_scripts(cast(Container, box), cast(LifeEvents, Events()), ("a.py",), log,
                         told.append)
    assert [(check.check, check.status) for check in checks] == [("import torch", Status.PASS)]
    assert told == checks
    assert log == ["INFO hello"]


@pytest.mark.parametrize(("program", "detail"), [
    ("print('the last line'); raise SystemExit(3)", "it ended with status 3: the last line"),
    ("import os; os.kill(os.getpid(), 9)", "it ended with status -9:")])
def test_a_script_that_dies_fails_by_name_and_the_next_one_runs(program: str, detail: str) -> None:
    first, second = checks_of(Box(program, f"print({GOOD!r})"), [])
    assert (first.check, first.status) == ("script0.py runs to its end", Status.FAIL)
    assert first.detail == detail
    assert second.check == "import torch"


def test_a_script_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "SCRIPT_S", 0.5)
    found, = checks_of(Box("import time; time.sleep(600)"), [])
    assert found.status is Status.FAIL
    assert found.detail.startswith("it did not end within ")


def test_a_script_that_prints_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process.lines, "__defaults__", (1_000_000,))
    found, = checks_of(Box("while True: print('x' * 1000)"), [])
    assert found.detail.startswith("it printed more than 1 MB")


def test_a_container_that_died_is_named_and_one_that_was_stopped_is_no_verdict() -> None:
    died = Box("raise SystemExit(137)", state="exited", code=137)
    assert checks_of(died, [])[0].detail.startswith("the container ended with status 137")
    stopped = Box("raise SystemExit(137)", state="exited", code=137)
    with pytest.raises(EngineError, match="stopped from outside"):
        checks_of(stopped, [], stopped=True)


def test_a_result_line_is_a_check() -> None:
    found = levels.parse(GOOD)
    assert found is not None
    assert (found.check, found.status) == ("import torch", Status.PASS)


@pytest.mark.parametrize("line", [
    "", "INFO hello", "@@ not json", '@@ {"check": "x", "status": "maybe"}', "@@ []", "@@ 7",
    "@@ " + "[" * 100_000, '@@ {"check": "x", "status": "pass", "extra": 1}'])
def test_other_lines_are_not(line: str) -> None:
    assert levels.parse(line) is None


@pytest.mark.parametrize(("name", "cuda", "flashinfer"), [
    ("cpu", None, False), ("tf5", "13.0", True)])
def test_the_scripts_are_told_the_lock_and_what_to_import(name: str, cuda: str | None, *,
                                                          flashinfer: bool) -> None:
    cell = next(cell for cell in open_workspace(ROOT / "matrix.toml").cells if cell.id == name)
    given: dict[str, Any] = script_input(cell, read_lock(ROOT / "locks" / f"{name}.toml"))
    assert {"torch", "transformers", "vllm"} <= set(given["imports"])
    assert ("flashinfer" in given["imports"]) == flashinfer
    assert bool(given["cuda"]) == bool(cuda)
    assert given["wheels"]["transformers"]
    assert all(set(case) == {"name", "messages", "contains"} for case in given["cases"])
    excused = {rule["pattern"] for rule in given["extensions"]}
    assert ("torchvision/_C.so" in excused) == (name == "cpu")
    assert "torchvision/_C.so" in given["operators"]
    assert given["pictures"] == []


def test_a_model_that_sees_is_asked_about_pictures_and_one_that_does_not_is_not(
        tmp_path: Path) -> None:
    tiny = ROOT / "tests" / "fixtures" / "tiny-gemma4"
    assert levels.sees(tiny)
    assert not levels.sees(tmp_path)
    (tmp_path / "config.json").write_text('{"vision_config": null}')
    assert not levels.sees(tmp_path)
    cell = next(cell for cell in open_workspace(ROOT / "matrix.toml").cells if cell.id == "cpu")
    lock = read_lock(ROOT / "locks" / "cpu.toml")
    given = script_input(cell, lock, sees=True)
    one, three = given["pictures"]
    assert (len(one["urls"]), one["expect"]) == (1, ["purple"])
    assert len(three["urls"]) == 3
    assert three["expect"] == ["red", "circle", "blue", "square", "green", "triangle"]
    assert all(url.startswith("data:image/png;base64,") for url in (*one["urls"], *three["urls"]))
    names = {case["name"] for case in given["cases"]}
    assert names >= {"text: capital of France", "vision: colour", "vision: shape"}
    assert names > {case["name"] for case in script_input(cell, lock)["cases"]}
