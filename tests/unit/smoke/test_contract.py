"""The launches of the image contract: their options, and what becomes of an image that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from builder import labels as label
from builder.engine.client import RunSpec
from builder.engine.container import create_options
from builder.errors import EngineError
from builder.process import Result
from builder.record.check import Check, Status
from builder.smoke import contract
from builder.smoke.contract import COMMAND_CHECK, check_contract, command_check, launch_spec
from builder.smoke.models import Run
from tests.unit.smoke.test_server import OneEngine, a_run


class Commands(OneEngine):
    """An engine whose containers answer a command as they are told."""

    def __init__(self, answer: Callable[[], Result]) -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[RunSpec] = []

    def run_once(self, spec: RunSpec, *, stdin: bytes | None = None,
                 timeout: float = 1.0) -> Result:
        self.asked.append(spec)
        return self.answer()


def said(stdout: str, status: int = 0, stderr: str = "") -> Callable[[], Result]:
    return lambda: Result(("docker",), status, stdout, stderr)


def command(answer: Callable[[], Result], *entrypoint: str) -> Check:
    run = a_run(Commands(answer))
    return command_check(replace(run, image=replace(run.image, entrypoint=entrypoint)))


def test_an_image_that_runs_the_command_is_fine() -> None:
    engine = Commands(said("user 12345\n"))
    assert command_check(a_run(engine)).status is Status.PASS
    spec, = engine.asked
    assert spec.entrypoint is None  # the image's own, if it has one
    assert spec.command[:2] == ("bash", "-c")


def test_an_entrypoint_is_told_by_its_words() -> None:
    check = command(said("user 12345\n"), "vllm", "serve")
    assert (check.check, check.status) == (COMMAND_CHECK, Status.FAIL)
    assert "vllm serve" in check.detail


@pytest.mark.parametrize(("answer", "detail"), [
    (said("user 0\n"), "printed user 0"),
    (said("", 127, "bash: awk: command not found"), "status 127, and it printed bash: awk"),
    (said(""), "printed nothing")])
def test_another_answer_is_told(answer: Callable[[], Result], detail: str) -> None:
    check = command(answer)
    assert check.status is Status.FAIL
    assert detail in check.detail


@pytest.mark.parametrize(("error", "detail"), [
    (EngineError('running failed\nexec: "bash": executable file not found'), '"bash"'),
    (EngineError("running failed\nit did not end within 600 s"), "did not end within")])
def test_a_command_that_cannot_start_or_does_not_end_is_told(error: Exception, detail: str
                                                             ) -> None:
    def answer() -> Result:
        raise error

    assert detail in command(answer).detail


def test_the_options_are_those_of_sparkrun() -> None:
    words = " ".join(create_options(launch_spec(a_run(OneEngine()))))
    for option in ("--user 12345:12345", "--env HOME=/tmp", "--ipc shareable", "--shm-size 32g",
                   "--security-opt no-new-privileges"):
        assert option in words
    assert "--read-only" not in words
    assert "--tmpfs" not in words


def test_a_read_only_root_has_only_the_declared_places() -> None:
    words = " ".join(create_options(launch_spec(a_run(OneEngine()), read_only=True)))
    assert "--read-only" in words
    assert words.count("--tmpfs") == 3
    for folder in ("/tmp", "/cache", "/workspace"):
        assert f"--tmpfs {folder}:exec,mode=1777" in words


def test_the_script_is_told_the_label() -> None:
    given = contract.script_input({label.NCCL: "a" * 64}, contract.LAUNCHES[0])
    assert given["nccl"] == "a" * 64
    assert contract.script_input({}, contract.LAUNCHES[0])["nccl"] == ""
    assert set(given["looks"]) | set(contract.LAUNCHES[1].looks) == {
        "user", "tools", "python", "folders", "nccl", "imports", "caches", "launcher"}


class Box:
    """A container that takes the script, or not."""

    def __init__(self, status: int) -> None:
        self.status, self.given = status, dict[str, str]()

    def exec(self, command: list[str], *, stdin: bytes) -> Result:
        self.given = json.loads(stdin)
        return Result(tuple(command), self.status, "", "" if not self.status else "read-only")


def played(monkeypatch: pytest.MonkeyPatch, status: int) -> tuple[list[Check], list[Box]]:
    boxes: list[Box] = []

    @contextmanager
    def running(_engine: Any, _spec: RunSpec) -> Iterator[tuple[Box, None]]:
        boxes.append(Box(status))
        yield boxes[-1], None

    def run_scripts(box: Box, _events: None, _scripts: Any, _log: Any, on_check: Any
                    ) -> list[Check]:
        on_check(Check(check=json.loads(box.given["spec.json"])["launch"], status=Status.PASS))
        return []

    monkeypatch.setattr(contract, "running", running)
    monkeypatch.setattr(contract, "run_scripts", run_scripts)
    told: list[Check] = []
    check_contract(cast(Run, a_run(Commands(said("user 12345\n")))), [], told.append)
    return told, boxes


def test_each_launch_gets_the_script_and_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    told, boxes = played(monkeypatch, 0)
    assert [check.check for check in told] == [COMMAND_CHECK, "any user", "read-only root"]
    assert all(set(box.given) == {"contract.py", "caches.py", "results.py", "spec.json"}
               for box in boxes)


def test_a_container_that_cannot_be_written_to_fails_by_name(monkeypatch: pytest.MonkeyPatch
                                                             ) -> None:
    told, _ = played(monkeypatch, 1)
    assert [(check.check, check.status, check.detail) for check in told[1:]] == [
        ("any user: python3 writes to /tmp", Status.FAIL, "read-only"),
        ("read-only root: python3 writes to /tmp", Status.FAIL, "read-only")]
