"""What status shows: ready, starting, wrong, ended by a known failure, and a switch cut off."""

from __future__ import annotations

from pathlib import Path

from builder.engine.service import start_service
from builder.serve.servers import survey
from builder.serve.start import begin, create
from builder.serve.status import Row, notes, rows
from tests.unit.diagnosis.test_matching import HEALTHY
from tests.unit.fake_openai import Fake
from tests.unit.played_servers import Played, launch
from tests.unit.serve.test_boot import UNKNOWN


def only(played: Played) -> Row:
    found = rows(played.engine, survey(played.engine))
    assert len(found) == 1
    return found[0]


def test_a_ready_one_answers(tmp_path: Path, fake: tuple[int, Fake]) -> None:
    played = Played(tmp_path)
    begin(played.engine, launch(tmp_path, port=fake[0]))
    row = only(played)
    assert (row.state, row.answers, row.good) == ("ready", "answers", True)
    assert row.since == "2026-01-02T00:00:00Z"
    assert row.image == "1" * 12
    assert row.by == "someone"
    assert row.document()["address"] == f"http://127.0.0.1:{fake[0]}/v1"


def test_one_that_starts_is_no_failure_and_a_dead_or_wrong_one_is(
        tmp_path: Path, fake: tuple[int, Fake]) -> None:
    played = Played(tmp_path)
    begin(played.engine, launch(tmp_path, port=fake[0]))
    fake[1].health = 503
    played.change(logs={"tiny-gemma4": HEALTHY[:2]})
    assert only(played).state.startswith("starting: ")
    assert only(played).good
    played.change(logs={"tiny-gemma4": [*HEALTHY, "EngineDeadError: it died"]})
    assert only(played).answers.startswith("dead: ")
    assert not only(played).good
    fake[1].health = 200
    fake[1].fault = lambda message, body: message.update(content="!!!!!!!!!!")
    played.change(logs={"tiny-gemma4": list(HEALTHY)})
    assert (only(played).state, only(played).good) == ("running", False)


def test_an_ended_one_is_named(tmp_path: Path) -> None:
    played = Played(tmp_path)
    played.change(die=["tiny-gemma4"], logs={"tiny-gemma4": [UNKNOWN]})
    begin(played.engine, launch(tmp_path))
    row = only(played)
    assert row.state == "ended with status 1 (gemma4-unsupported)"
    assert (row.good, row.memory) == (False, 0)


def test_a_switch_that_was_cut_off_says_how_to_go_on(tmp_path: Path) -> None:
    played = Played(tmp_path)
    old = begin(played.engine, launch(tmp_path))
    identity = create(played.engine, launch(tmp_path, "tiny-gemma4-moe").replacing(old.id))
    state = played.read()
    state["boxes"][old.id]["State"]["Status"] = "exited"
    played.write(state)
    known = survey(played.engine)
    assert [row.state for row in rows(played.engine, known)] == [
        "stopped, kept to go back to", "created, never started"]
    assert "Finish it: `./nox -s switch -- tiny-gemma4-moe`" in next(notes(known, ""))
    assert list(notes(known, "switch x (process 7)")) == ["at work now: switch x (process 7)"]
    start_service(played.engine.docker, identity, "x")
