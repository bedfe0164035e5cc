"""A start: what is in its way, what it leaves when it fails, and what it says when it is ready."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from builder.engine.service import UNLESS_STOPPED
from builder.errors import EngineError, UsageError
from builder.serve.launch import Asked
from builder.serve.servers import HOST, KEY_FILE, MODEL, PORT, RECIPE, read_server, survey
from builder.serve.start import announcement, begin, create, detached, serve, usage
from tests.unit.fake_openai import Fake
from tests.unit.played_servers import Played, launch, workspace
from tests.unit.serve.test_servers import facts


def test_it_starts_once_and_a_second_call_follows_it(
        tmp_path: Path, fake: tuple[int, Fake], capsys: pytest.CaptureFixture[str]) -> None:
    played, planned = Played(tmp_path), launch(tmp_path, port=fake[0])
    assert serve(played.engine, workspace(tmp_path), planned).ready
    assert serve(played.engine, workspace(tmp_path), launch(tmp_path, port=fake[0])).ready
    assert played.calls().count("create") == 1
    assert "runs already" in capsys.readouterr().err


def test_a_failed_one_is_removed_and_an_ended_one_makes_room(
        tmp_path: Path, fake: tuple[int, Fake]) -> None:
    played = Played(tmp_path)
    begin(played.engine, launch(tmp_path, port=fake[0]))
    state = played.read()
    next(iter(state["boxes"].values()))["State"]["Status"] = "exited"
    played.write({**state, "die": ["tiny-gemma4"]})
    outcome = serve(played.engine, workspace(tmp_path), launch(tmp_path, port=fake[0]))
    assert not outcome.ready
    assert played.boxes() == {}


def test_restart_comes_only_when_it_is_ready(tmp_path: Path, fake: tuple[int, Fake]) -> None:
    played = Played(tmp_path)
    planned = launch(tmp_path, asked=Asked(port=fake[0], restart=True))
    begin(played.engine, planned)
    assert survey(played.engine).servers[0].restart, "it is remembered"
    assert "update" not in played.calls()
    assert serve(played.engine, workspace(tmp_path), planned).ready
    box = next(iter(played.read()["boxes"].values()))
    assert box["HostConfig"]["RestartPolicy"]["Name"] == UNLESS_STOPPED


def test_another_server_at_the_port_is_named(tmp_path: Path) -> None:
    played = Played(tmp_path)
    begin(played.engine, launch(tmp_path))
    with pytest.raises(UsageError, match="port 8000 is that of tiny-gemma4") as error:
        serve(played.engine, workspace(tmp_path), launch(tmp_path, "tiny-gemma4-moe"))
    assert "./nox -s switch -- tiny-gemma4-moe" in error.value.next_step
    with pytest.raises(UsageError, match="with other options"):
        serve(played.engine, workspace(tmp_path), launch(tmp_path, serve=("--enforce-eager",)))


def test_a_port_of_another_program_leaves_no_container(tmp_path: Path) -> None:
    played = Played(tmp_path)
    played.change(fails={"start": "Bind for 127.0.0.1:8000 failed: port is already allocated"})
    with pytest.raises(EngineError, match="its port is in use"):
        begin(played.engine, launch(tmp_path))
    assert played.boxes() == {}


def test_nothing_starts_while_a_switch_is_not_complete(tmp_path: Path) -> None:
    played = Played(tmp_path)
    old = begin(played.engine, launch(tmp_path))
    create(played.engine, launch(tmp_path, "tiny-gemma4-moe").replacing(old.id))
    with pytest.raises(UsageError, match="from tiny-gemma4 to tiny-gemma4-moe is not complete"):
        serve(played.engine, workspace(tmp_path), launch(tmp_path, port=9000))


def test_a_compile_anew_is_told_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    gpu = launch(tmp_path, "gemma4-26b-a4b-fp8", cell="tf5")
    assert "it will compile before it answers" in "\n".join(announcement(gpu))
    assert gpu.compiled
    gpu.compiled.folder.mkdir(parents=True)
    (gpu.compiled.folder / "kernel").touch()
    again = launch(tmp_path, "gemma4-26b-a4b-fp8", cell="tf5")
    assert "compile before" not in "\n".join(announcement(again))
    assert "compile before" not in "\n".join(announcement(launch(tmp_path)))


def test_how_to_talk_to_it_and_what_ctrl_c_did() -> None:
    labels = {RECIPE: "tiny", MODEL: "google/x", PORT: "8123"}
    page = "\n".join(usage(read_server(facts("a", labels))))
    assert "http://127.0.0.1:8123/v1/chat/completions" in page
    assert '"model": "google/x"' in page
    assert "Authorization" not in page
    with_key = "\n".join(usage(read_server(facts("a", {**labels, KEY_FILE: "/my k"}))))
    assert """-H "Authorization: Bearer $(sed s/^VLLM_API_KEY=// '/my k')\"""" in with_key
    assert "was not stopped" in "\n".join(detached("tiny"))


def test_what_is_printed_for_pasting_runs_nothing_that_a_label_says(tmp_path: Path) -> None:
    """Labels are the engine's: whoever may start containers may have written them."""
    hostile = f"x'; touch {tmp_path}/made; echo '$(touch {tmp_path}/made)"
    server = read_server(facts("a", {RECIPE: "tiny", MODEL: hostile, PORT: "8123",
                                     HOST: f"$(touch {tmp_path}/made)"}))
    lines = list(usage(server))
    pasted = "\n".join(lines[lines.index("") + 1:lines.index("", lines.index("") + 1)])
    done = subprocess.run(["sh", "-c", "curl() { for last; do :; done; printf %s \"$last\"; }\n"
                           + pasted], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["model"] == hostile
    assert not (tmp_path / "made").exists()
