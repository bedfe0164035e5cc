"""An image to another machine: the tunnel of ssh, what the engine there pulls, and what fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from builder import peers
from builder.engine.client import RemoteLayer
from builder.errors import EngineError, NetworkError, UsageError
from builder.peers import READY, Image, bring, check_host, check_registry, reach, tunnel
from tests.unit.fake_docker import fake_docker

LOW, TOP = (RemoteLayer(f"sha256:{letter * 64}", size) for letter, size in (("a", 70), ("b", 5)))
IMAGE = Image("127.0.0.1:5000/ns/cpu:cpu-1.0-abc", "sha256:" + "d" * 64, "sha256:" + "c" * 64,
              (LOW, TOP), ("127.0.0.1:5000/ns/cpu:cpu", "127.0.0.1:5000/ns/cpu:cpu-1.0-abc"))
ALLOCATED = "Allocated port 40123 for remote forward to 127.0.0.1:5000"
DOCKER = """
import json
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + "\\n")
words = words[2:]
if words[0] == "version":
    print("28.0.1")
elif words[:2] == ["image", "inspect"]:
    if {present!r} or words[2].startswith("127.0.0.1:40123"):
        print(json.dumps([{{"Id": {id!r}, "RootFS": {{"Layers": []}}, "Config": {{}}, "Os": "linux",
                           "Architecture": "arm64", "Size": 1, "Created": ""}}]))
    else:
        print("Error: No such image", file=sys.stderr)
        sys.exit(1)
elif words[:2] == ["image", "pull"]:
    print("127.0.0.1/ns/cpu@sha256: Pulling from ns/cpu")
    print("{low}: Already exists")
    print("{top}: Pulling fs layer")
    print("{top}: Download complete")
    print("{top}: Pull complete")
"""


def fake_ssh(folder: Path, body: str) -> None:
    """Write a program called ssh; it keeps its arguments and then does ``body``."""
    path = folder / "ssh"
    path.write_text(f"#!{sys.executable}\nimport json, sys, time\n"
                    f"open({str(folder / 'ssh.json')!r}, 'w').write(json.dumps(sys.argv[1:]))\n"
                    f"{body}\n")
    path.chmod(0o755)


def opens(*lines: str) -> str:
    return "".join(f"print({line!r}, flush=True)\n" for line in lines) + "sys.stdin.read()\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in front of PATH, with an ssh that opens a tunnel."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    fake_ssh(tmp_path, opens("Welcome to DGX OS", ALLOCATED, READY))
    return tmp_path


def with_docker(folder: Path, *, present: bool = False) -> Path:
    log = folder / "docker.log"
    fake_docker(folder, DOCKER.format(
        log=str(log), present=present, id=IMAGE.config, low=LOW.digest[7:19], top=TOP.digest[7:19]))
    return log


def calls(log: Path) -> list[list[str]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_the_tunnel_ends_on_both_loopbacks(programs: Path) -> None:
    with tunnel("me@spark2", 5000) as port:
        assert port == 40123
    words = json.loads((programs / "ssh.json").read_text())
    assert words[words.index("-R") + 1] == "127.0.0.1:0:127.0.0.1:5000"
    assert words[-3:-1] == ["--", "me@spark2"]
    assert "BatchMode=yes" in words


def test_the_other_engine_pulls_and_names_what_it_pulled(programs: Path) -> None:
    log = with_docker(programs)
    done = bring(IMAGE, "spark2")
    assert (done.pulled, done.bytes, done.id) == ((TOP,), 5, IMAGE.config)
    said = calls(log)
    assert all(words[:2] == ["--host", "ssh://spark2"] for words in said)
    pulled = f"127.0.0.1:40123/ns/cpu@{IMAGE.digest}"
    assert ["image", "pull", pulled] in [words[2:] for words in said]
    assert [words[-1] for words in said if words[2:4] == ["image", "tag"]] == list(IMAGE.names)
    assert said[-1][-1] == pulled, "the name of the tunnel goes"


def test_a_peer_is_asked_before_anything_is_pushed(programs: Path) -> None:
    log = with_docker(programs)
    reach("spark2", "127.0.0.1:5000/ns")
    assert [words[2] for words in calls(log)] == ["version"]


def test_what_is_there_is_not_pulled(programs: Path) -> None:
    log = with_docker(programs, present=True)
    assert bring(IMAGE, "spark2").pulled == ()
    assert not [words for words in calls(log) if "pull" in words]


@pytest.mark.parametrize(("body", "told"), [
    ("print('Host key verification failed.'); sys.exit(255)", "Host key verification failed"),
    ("print('remote port forwarding failed for listen port 0'); sys.exit(255)", "port forwarding"),
    ("sys.exit(255)", "ended without a word"),
    (f"print({READY!r}); sys.exit(255)", "it named no port"),
    ("print('x' * 100_000)", "xxx")])
def test_a_tunnel_that_does_not_open_is_one_clear_error(
        programs: Path, body: str, told: str) -> None:
    fake_ssh(programs, body)
    log = with_docker(programs)
    with pytest.raises(NetworkError, match=told) as caught:
        bring(IMAGE, "spark2")
    assert "ssh-copy-id spark2" in caught.value.next_step
    assert len(str(caught.value)) < 700
    assert not log.exists()


def test_an_ssh_that_says_nothing_is_given_up(
        programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "SSH_S", 0.3)
    fake_ssh(programs, "time.sleep(600)")
    with pytest.raises(NetworkError, match=r"no output for 0 s|not finished"):
        bring(IMAGE, "spark2")


def test_an_engine_that_does_not_answer_there_is_one_clear_error(programs: Path) -> None:
    fake_docker(programs, "print('error during connect', file=sys.stderr); sys.exit(1)")
    with pytest.raises(EngineError) as caught:
        bring(IMAGE, "spark2")
    assert "ssh://spark2" in str(caught.value)


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "", "ssh://a", "a:22", "a;b", "a\nb",
                                  "-l@a", "a@-b", "\u0430\u200b"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="not a name for ssh"):
        check_host(host)


@pytest.mark.parametrize("host", ["spark-2", "me@spark2.local", "192.168.100.11", "my_host"])
def test_a_host_is_taken_as_it_is(host: str) -> None:
    assert check_host(host) == host


def test_a_registry_elsewhere_needs_no_tunnel() -> None:
    check_registry("127.0.0.1:5000/sparkyard")
    with pytest.raises(UsageError, match="others can pull from it"):
        check_registry("registry.example/team")
