"""A switch: complete, rolled back, cut off at each of its moments, and gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.engine.service import NEVER, UNLESS_STOPPED, start_service
from builder.errors import UsageError
from builder.serve import memory
from builder.serve.launch import Asked, Launch
from builder.serve.servers import Server, survey
from builder.serve.start import begin, create
from builder.serve.switch import switch, to_replace
from tests.unit.fake_openai import Fake
from tests.unit.played_servers import Played, launch, workspace

NEW = "tiny-gemma4-moe"
OLD = "tiny-gemma4"


class Case:
    """An engine with the old server running, and the launches of both."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.played = Played(folder)
        self.new, self.back = launch(folder, NEW, port=port), launch(folder, OLD, port=port)
        self.old: Server = begin(self.played.engine, self.back)

    def switch(self, wanted: Launch) -> tuple[bool, str, bool]:
        """Return whether the target is ready, what serves now, and whether it was brought back."""
        found = switch(self.played.engine, workspace(self.folder), wanted)
        return (found.outcome.ready, found.serving.recipe if found.serving else "",
                found.back is not None)

    def cut_off(self, *, stopped: bool, started: bool) -> None:
        """Leave what a killed switch leaves."""
        identity = create(self.played.engine, self.new.replacing(self.old.id))
        if stopped:
            state = self.played.read()
            state["boxes"][self.old.id]["State"]["Status"] = "exited"
            self.played.write(state)
        if started:
            start_service(self.played.engine.docker, identity, "x")


@pytest.fixture
def case(tmp_path: Path, fake: tuple[int, Fake]) -> Case:
    return Case(tmp_path, fake[0])


def test_the_new_one_serves_and_the_old_one_is_gone(case: Case) -> None:
    assert case.switch(case.new) == (True, NEW, False)
    assert case.played.boxes() == {NEW: "running"}
    calls = case.played.calls()
    assert calls.index("create", calls.index("start")) < calls.index("stop"), (
        "what is to come is written down before anything is stopped")


def test_one_that_dies_is_rolled_back(case: Case) -> None:
    case.played.change(die=[NEW])
    assert case.switch(case.new) == (False, OLD, True)
    assert case.played.boxes() == {OLD: "running"}
    assert list((case.folder / "logs").glob(f"sparkyard-{NEW}-*.log"))


@pytest.mark.parametrize(("asked", "policy"), [(True, UNLESS_STOPPED), (False, NEVER)])
def test_what_comes_back_is_started_by_the_engine_as_it_was_asked_for(
        tmp_path: Path, fake: tuple[int, Fake], asked: bool, policy: str) -> None:
    """One that had not been ready yet when it was replaced has no policy of its own."""
    played = Played(tmp_path)
    begin(played.engine, launch(tmp_path, OLD, asked=Asked(port=fake[0], restart=asked)))
    played.change(die=[NEW])
    found = switch(played.engine, workspace(tmp_path), launch(tmp_path, NEW, port=fake[0]))
    assert found.back
    assert found.back.ready
    box, = played.read()["boxes"].values()
    assert box["HostConfig"]["RestartPolicy"]["Name"] == policy


def test_one_that_does_not_fit_is_never_started(
        case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "lacking", lambda *_: "it takes 100 GB, held by ollama")
    assert case.switch(case.new) == (False, OLD, True)
    assert case.played.boxes() == {OLD: "running"}


def test_one_that_the_engine_cannot_start_is_rolled_back(case: Case) -> None:
    case.cut_off(stopped=True, started=False)
    state = case.played.read()
    new = next(key for key in state["boxes"] if key != case.old.id)
    state["boxes"][new]["State"].update(Status="exited", StartedAt="2026-01-02T00:00:00Z")
    case.played.write(state)
    assert case.switch(case.new) == (False, OLD, True)


@pytest.mark.parametrize(("stopped", "started"), [(False, False), (True, False), (True, True)])
def test_cut_off_anywhere_it_goes_on(case: Case, *, stopped: bool, started: bool) -> None:
    case.cut_off(stopped=stopped, started=started)
    assert case.switch(case.new) == (True, NEW, False)
    assert case.played.boxes() == {NEW: "running"}


@pytest.mark.parametrize(("stopped", "started"), [(False, False), (True, False), (True, True)])
def test_cut_off_anywhere_it_goes_back(case: Case, *, stopped: bool, started: bool) -> None:
    case.cut_off(stopped=stopped, started=started)
    assert case.switch(case.back) == (True, OLD, False)
    assert case.played.boxes() == {OLD: "running"}


def test_a_third_one_waits_until_that_is_clear(case: Case) -> None:
    case.cut_off(stopped=True, started=False)
    third = launch(case.folder, "tiny-gemma4-plain")
    with pytest.raises(UsageError, match="was cut off") as error:
        case.switch(third)
    assert f"switch -- {OLD}" in error.value.next_step


def test_the_same_server_is_left_running_and_none_is_a_start(
        tmp_path: Path, case: Case) -> None:
    assert case.switch(case.back) == (True, OLD, False)
    assert case.played.calls().count("create") == 1
    case.played.change(boxes={})
    assert case.switch(case.new) == (True, NEW, False)


def test_which_one_is_replaced_has_to_be_clear(case: Case) -> None:
    assert to_replace(survey(case.played.engine), None) == case.old
    begin(case.played.engine, launch(case.folder, NEW, port=9000))
    known = survey(case.played.engine)
    with pytest.raises(UsageError, match="2 servers run: tiny-gemma4 "):
        to_replace(known, None)
    assert to_replace(known, OLD) == known.servers[0]
    with pytest.raises(UsageError, match="no server of other runs"):
        to_replace(known, "other")
