"""Level 2 as a whole, beside a container that is only played: what is asked, kept and said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from builder import process
from builder.engine.client import Engine, EngineInfo, ImageFacts, RunSpec
from builder.engine.container import ContainerState
from builder.errors import EngineError
from builder.limits import EMULATED, STREAM_S, within
from builder.locking.lock import read_lock
from builder.recipes.load import load_recipe
from builder.record.check import Check, Status
from builder.smoke import client, container_end, server, watch
from builder.smoke.client import lines
from builder.smoke.models import Observations, Run
from builder.smoke.probes.run import UNASKED
from builder.smoke.readiness import Boot
from builder.smoke.server import serve_and_ask, slow_boot, start_server
from builder.smoke.soak.rules import Rules, patient
from builder.workspace import open_workspace
from tests.unit.diagnosis.test_matching import HEALTHY
from tests.unit.fake_openai import Fake, serving
from tests.unit.smoke.test_processes import STAT

ROOT = Path(__file__).parents[3]
WORKSPACE = open_workspace(ROOT / "matrix.toml")
INFO: dict[str, Any] = {
    "id": "x", "version": "26", "client": "", "buildx": "", "buildkit": "", "driver": "",
    "platform": "linux/amd64", "platforms": (), "data_root": Path("/x")}
IMAGE = ImageFacts("sha256:1", (), {}, (), (), 1, "linux/amd64", "", {})


class Box:
    """A container whose server is the fake one, and dies when it is told to."""

    def __init__(self, spec: RunSpec, port: int, lines: list[str], *, stopped: bool) -> None:
        self.spec, self.port, self.lines, self.stopped = spec, port, lines, stopped
        self.dead, self.removed = Event(), Event()

    def state(self) -> ContainerState:
        return (ContainerState("exited", 1, False, "") if self.dead.is_set()
                else ContainerState("running", 0, False, ""))

    def follow_events(self) -> Iterator[str]:
        yield "start"
        while not self.dead.wait(0.02):
            if self.removed.is_set():
                return
        yield from (("kill", "die") if self.stopped else ("die",))

    def logs(self, *, follow: bool) -> Iterator[str]:
        yield from self.lines
        self.removed.wait(30)
        yield "the last line comes when the container is gone"

    def exec(self, command: list[str], **_: Any) -> process.Result:
        return process.Result(tuple(command), 0, STAT, "")

    def published_port(self, port: int) -> int:
        return self.port


class OneEngine(Engine):
    """An engine that plays one container."""

    def __init__(self, port: int = 0, lines: list[str] | None = None, *, stopped: bool = False,
                 platform: str = "linux/amd64") -> None:
        self.port, self.lines, self.stopped = port, lines or [], stopped
        self.played = EngineInfo(**{**INFO, "platform": platform})
        self.box: Box | None = None

    @property
    def info(self) -> EngineInfo:  # type: ignore[override]
        return self.played

    @contextmanager
    def start(self, spec: RunSpec) -> Iterator[Any]:
        self.box = Box(spec, self.port, self.lines, stopped=self.stopped)
        yield self.box
        self.box.removed.set()


def a_run(engine: Engine, cell: str = "cpu", recipe: str = "tiny-gemma4",
          serve: tuple[str, ...] | None = None) -> Run:
    chosen = load_recipe(ROOT, recipe)
    # The fake server's model has this name.
    model = chosen.model.model_copy(update={"path": "tests/fixtures/tiny"})
    chosen = chosen.model_copy(update={"model": model, "chat_template": None,
                                       "serve": chosen.serve if serve is None else serve})
    return Run(WORKSPACE, engine, next(item for item in WORKSPACE.cells if item.id == cell),
               read_lock(ROOT / "locks" / f"{cell}.toml"), "2", chosen, None, "r/x:y", IMAGE)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Fake]]:
    monkeypatch.setattr(container_end, "DIE_WITHIN_S", 5.0)
    monkeypatch.setattr(container_end, "KILL_AFTER_DIE_S", 0.0)
    monkeypatch.setattr(watch, "LAST_WORDS_S", 0.1)
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.1)
    with serving() as (port, server):
        server.sees = True
        yield port, server


def smoke(engine: OneEngine, checks: list[Check] | None = None
          ) -> tuple[list[Check], Observations]:
    checks = [] if checks is None else checks
    observed = Observations()
    serve_and_ask(a_run(engine), observed, checks.append)
    return checks, observed


def test_a_healthy_server_is_asked_everything(fake: tuple[int, Fake]) -> None:
    checks, observed = smoke(OneEngine(fake[0], list(HEALTHY)))
    by_name = {check.check: check.status for check in checks}
    assert by_name["boot"] is by_name["healthy afterwards"] is Status.PASS
    assert by_name["text: capital of France"] is Status.PASS
    assert by_name["chat template"] is Status.NOT_APPLICABLE
    assert observed.metrics
    assert observed.phases
    assert observed.log[-1] == "the last line comes when the container is gone"
    assert UNASKED not in by_name


def test_a_soak_comes_after_the_questions_of_a_server_that_lives(
        fake: tuple[int, Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    minutes: list[float] = []
    monkeypatch.setattr(server, "HEALTH_WITHIN_S", 0.1)
    monkeypatch.setattr(server, "soak", lambda *words, **_: minutes.append(words[3]))
    run = replace(a_run(OneEngine(fake[0], list(HEALTHY))), soak=7)
    serve_and_ask(run, Observations(), lambda check: None)
    fake[1].health = 500
    serve_and_ask(run, Observations(), lambda check: None)
    assert minutes == [7]


@pytest.mark.parametrize(("platform", "times"), [("linux/amd64", 1), ("linux/arm64", EMULATED)])
def test_every_limit_on_an_emulated_server_is_so_many_times_as_long(
        fake: tuple[int, Fake], monkeypatch: pytest.MonkeyPatch, platform: str, times: float
        ) -> None:
    """The boot was patient and the questions were not: they ended after 300 s each."""
    given: list[float] = []
    streamed: list[float] = []
    soaked: list[Rules] = []
    scales: list[float] = []

    def noting(seconds: float, *words: Any) -> Any:
        given.append(seconds)
        return within(seconds, *words)

    def reading(response: Any, seconds: float) -> Any:
        streamed.append(seconds)
        return lines(response, seconds)

    def boot(*, scale: float, durations: dict[str, float]) -> Boot:
        scales.append(scale)
        return Boot(scale=scale, durations=durations)

    monkeypatch.setattr(client, "within", noting)
    monkeypatch.setattr(client, "lines", reading)
    monkeypatch.setattr(server, "Boot", boot)
    monkeypatch.setattr(server, "soak", lambda *_, limits: soaked.append(limits))
    run = replace(a_run(OneEngine(fake[0], list(HEALTHY), platform=platform)), soak=2)
    serve_and_ask(run, Observations(), lambda check: None)
    assert min(given) == client.HEALTH_S * times
    assert client.TIMEOUT_S * times in given
    assert set(streamed) == {STREAM_S * times}
    assert scales == [times]
    assert soaked == [patient(times)]


def test_a_server_that_does_not_come_up_is_not_asked(fake: tuple[int, Fake]) -> None:
    checks, _ = smoke(OneEngine(fake[0], ["EngineCore failed to start."]))
    assert checks[0].check == "boot"
    assert checks[0].status is Status.FAIL
    assert all(check.check.startswith(("boot", "log ")) for check in checks)
    assert fake[1].asked == 0


@pytest.mark.parametrize("stopped", [False, True])
def test_a_death_in_the_midst_of_the_questions(fake: tuple[int, Fake], *, stopped: bool) -> None:
    """By itself it is a verdict and one row of questions not asked; from outside it is none."""
    port, server = fake
    engine = OneEngine(port, list(HEALTHY), stopped=stopped)

    def die(number: int) -> int:
        if number < 3:
            return 200
        assert engine.box
        engine.box.dead.set()
        return 500

    server.status = die
    if stopped:
        kept: list[Check] = []
        with pytest.raises(EngineError, match="stopped from outside"):
            smoke(engine, kept)
        assert Status.FAIL not in {check.status for check in kept}
        return
    checks, observed = smoke(engine)
    by_name = {check.check: check for check in checks}
    assert "the server ended with status 1" in by_name[UNASKED].detail
    assert "Docker engine" not in by_name[UNASKED].detail
    assert by_name["healthy afterwards"].status is Status.FAIL
    assert observed.metrics == {}


def test_the_folder_of_the_model_is_copied_in_and_served() -> None:
    engine = OneEngine()
    with start_server(a_run(engine)):
        assert engine.box
        spec = engine.box.spec
    assert spec.copies == ((ROOT / "tests/fixtures/tiny", "/tiny"),)
    assert "/tiny" in spec.command
    assert (spec.gpus, spec.ports) == (None, (8000,))
    assert not any("TOKEN" in str(value) for value in vars(spec).values())


@pytest.mark.parametrize(("cell", "platform", "serve", "said"), [
    ("cpu", "linux/amd64", (), ("8 minutes", "--enforce-eager", "recipes/tiny-gemma4.toml")),
    ("cpu", "linux/arm64", (), ("emulation",)),
    ("tf5", "linux/arm64", (), ("CUDA graphs", "compile cache", "--enforce-eager"))])
def test_a_recipe_that_compiles_says_so_before_it_boots(
        cell: str, platform: str, serve: tuple[str, ...], said: tuple[str, ...]) -> None:
    hint = slow_boot(a_run(OneEngine(platform=platform), cell, serve=serve))
    assert all(words in hint for words in said), hint


@pytest.mark.parametrize("flag", ["--enforce-eager", "--compilation-config=0", "-O0"])
def test_a_recipe_that_decides_about_compilation_is_left_alone(flag: str) -> None:
    assert slow_boot(a_run(OneEngine(), serve=("--max-model-len", "2048", flag))) == ""


def test_the_tiny_recipe_compiles_nothing() -> None:
    assert slow_boot(a_run(OneEngine())) == ""
