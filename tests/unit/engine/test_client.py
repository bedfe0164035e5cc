"""The engine's client with docker programs that no real engine could be made to play."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from builder.cli import run
from builder.engine.client import Engine, ImageFacts, RemoteLayer, sent_bytes
from builder.errors import EngineError, NetworkError
from builder.process_group import members
from tests.unit.fake_docker import fake_docker

ROOT = Path(__file__).parents[3]
SHA = "sha256:" + "a" * 64
IMAGE = {"Id": SHA, "RepoTags": ["r/x:y"], "RepoDigests": None, "Size": 5, "Os": "linux",
         "Architecture": "arm64", "Created": "1980-01-01T00:00:00Z",
         "Config": {"Env": ["A=b=c", "PATH=/x"], "Labels": {"k": "v"}},
         "RootFS": {"Type": "layers", "Layers": ["sha256:1"]}}
# Every way in which a command of ours first speaks to an engine.
COMMANDS = (("plan", "--engine"), ("build", "cpu"), ("smoke", "cpu"), ("push", "cpu"),
            ("gate", "--image", "r/x:y"), ("base",))


def engine(folder: Path, body: str) -> Engine:
    return Engine(str(fake_docker(folder, body)), None, None)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("body", ["pass", "print('<html>')", "print('{')"],
                         ids=["nothing", "html", "half"])
def test_a_docker_that_answers_nonsense_is_one_clear_error(
        words: tuple[str, ...], body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    fake_docker(tmp_path, body)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    assert run(["--matrix", str(ROOT / "matrix.toml"), *words]) == 5
    said = capsys.readouterr().err
    assert "which is not an answer of Docker" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("body", [
    "print('{}') if '{{json .}}' in words else print('27.0.1')", "print('27.0.1')",
    "print('null') if '{{json .}}' in words else print('27.0.1')"])
def test_an_engine_that_answers_its_version_and_then_nonsense(tmp_path: Path, body: str) -> None:
    connected = Engine.connect(binary=str(fake_docker(tmp_path, body)))
    for question in (lambda: connected.info, lambda: connected.inspect("r/x:y"),
                     lambda: connected.remote_digest("r/x:y"), lambda: connected.push("r/x:y")):
        with pytest.raises(EngineError, match="not an answer of Docker"):
            question()


def test_an_image_s_facts_are_docker_s_own(tmp_path: Path) -> None:
    assert engine(tmp_path, f"print({json.dumps([IMAGE])!r})").inspect("r/x:y") == ImageFacts(
        id=SHA, diff_ids=("sha256:1",), labels={"k": "v"}, repo_tags=("r/x:y",), repo_digests=(),
        size=5, platform="linux/arm64", created="1980-01-01T00:00:00Z",
        env={"A": "b=c", "PATH": "/x"})


def test_an_image_that_is_not_there_is_none_and_a_failure_is_not(tmp_path: Path) -> None:
    fails = "print({!r}, file=sys.stderr); sys.exit(1)"
    missing = engine(tmp_path, fails.format("Error response from daemon: No such image: x"))
    assert missing.inspect("x") is None
    missing.remove("x")
    for method in (Engine.inspect, Engine.remove):
        with pytest.raises(EngineError, match="cannot connect to the Docker engine"):
            method(engine(tmp_path, fails.format("Cannot connect to the Docker daemon")), "x")


def test_the_tags_of_images_with_a_label(tmp_path: Path) -> None:
    body = ("assert words[2:6] == ['--filter', 'label=k=v', '--filter', 'reference=r/x'], words\n"
            "print('r/x:b\\nr/x:<none>\\nr/x:a')")
    assert engine(tmp_path, body).labelled("r/x", "k", "v") == ("r/x:b", "r/x:a")
    assert engine(tmp_path, "pass").labelled("r/x", "k", "v") == ()


def test_an_image_that_is_removed_while_all_are_listed_is_no_failure(tmp_path: Path) -> None:
    body = (f"print({SHA!r}) if 'ls' in words else (print({json.dumps([IMAGE])!r}), "
            "print('No such image: b', file=sys.stderr), sys.exit(1))")
    assert engine(tmp_path, body).diff_ids() == {"sha256:1"}


@pytest.mark.parametrize("said", ["x\\0y", "--help", "sha256:1"])
def test_what_is_no_digest_is_not_asked_for(tmp_path: Path, said: str) -> None:
    """Found by fuzzing: the words of one answer are arguments of the next command."""
    body = f"print('{said}') if 'ls' in words else sys.exit('asked')"
    assert engine(tmp_path, body).diff_ids() == frozenset()


def test_what_a_registry_does_not_have_is_none_and_a_refusal_is_an_error(tmp_path: Path) -> None:
    fails = "print({!r}, file=sys.stderr); sys.exit(1)"
    empty = engine(tmp_path, fails.format("ERROR: r/x:y: not found"))
    assert (empty.remote_digest("r/x:y"), empty.remote_layers("r/x:y")) == (None, None)
    with pytest.raises(NetworkError, match="HTTP 401"):
        engine(tmp_path, fails.format("401 Unauthorized")).remote_layers("r/x:y")


def test_layers_and_digest_of_a_registry(tmp_path: Path) -> None:
    manifest = json.dumps({"layers": [{"digest": "sha256:1", "size": 7}]})
    there = engine(tmp_path, f"print({manifest!r} if '--raw' in words else {SHA!r})")
    assert there.remote_layers("r/x:y") == (RemoteLayer("sha256:1", 7),)
    assert there.remote_digest("r/x:y") == SHA


def test_a_push_returns_the_digest_and_one_without_is_an_error(tmp_path: Path) -> None:
    assert engine(tmp_path, f"print('y: digest: {SHA} size: 1')").push("r/x:y") == SHA
    with pytest.raises(EngineError, match="not an answer of Docker"):
        engine(tmp_path, "print('The push refers to repository [r/x]')").push("r/x:y")


def test_a_build_reports_its_lines_bytes_and_metadata(tmp_path: Path) -> None:
    body = ("import json\nfor word, value in zip(words, words[1:]):\n"
            "    if word == '--metadata-file': open(value, 'w').write('{\"image\": 1}')\n"
            "print('#5 transferring context: 1.60GB 9.5s', file=sys.stderr)")
    lines: list[str] = []
    done = engine(tmp_path, body).bake({"target": {}}, ("image",), on_line=lines.append)
    assert (done.sent, done.metadata, len(lines)) == (1_600_000_000, {"image": 1}, 1)


# Docker with a plugin: both go on for a minute, and the plugin hears of nothing but its group.
PLUGGED = """import os, subprocess
open({note!r}, "w").write(str(os.getpgid(0)))
plugin = subprocess.Popen(["sleep", "60"])
print("#1 building", file=sys.stderr, flush=True)
plugin.wait()"""


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # what python-on-whales leaves open
def test_a_build_that_is_interrupted_ends_with_its_plugin(tmp_path: Path) -> None:
    note = tmp_path / "group"
    there = engine(tmp_path, PLUGGED.format(note=str(note)))
    with pytest.raises(KeyboardInterrupt):
        there.bake({"target": {}}, ("image",), on_line=interrupted)
    gc.collect()
    assert members(int(note.read_text())) == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # what python-on-whales leaves open
@pytest.mark.parametrize("verb", ["load", "tag", "remove", "push", "pull", "save", "inspect"])
def test_each_docker_command_that_is_interrupted_ends_with_its_plugin(
        tmp_path: Path, verb: str) -> None:
    note = tmp_path / "group"
    there = engine(tmp_path, PLUGGED.format(note=str(note)))
    words = {"load": [tmp_path / "x"], "tag": ["r/x:y", "r/x:z"], "save": ["r/x:y", tmp_path / "x"]}
    (tmp_path / "x").touch()

    def once_begun() -> None:
        while not (note.exists() and note.read_text()):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupted)
    try:
        threading.Thread(target=once_begun, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            getattr(there, verb)(*words.get(verb, ["r/x:y"]))
    finally:
        signal.signal(signal.SIGUSR1, before)
    gc.collect()
    assert members(int(note.read_text())) == []


@pytest.mark.parametrize(("line", "sent"), [
    ("#5 transferring context: 1.60GB 9.5s done", 1_600_000_000), ("#5 transferring x: 2kB", 2000),
    ("#5 transferring context: 17B", 17), ("#5 transferring context: 1.2.3GB", 0), ("#5 DONE", 0)])
def test_bytes_sent_are_read_from_the_log(line: str, sent: int) -> None:
    assert sent_bytes(line) == sent


def test_no_docker_at_all_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match="not installed") as caught:
        Engine.connect()
    assert "./nox -s engine" in caught.value.next_step
