"""Detecting and performing, on files and a loopback server of the test's own."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hosts_for_tests import WORKING

from builder import process
from builder.engine.docker import DockerClient
from builder.errors import EngineError
from builder.host import setup as host
from builder.host.plan import Host, WriteFile, plan
from tests.unit.fake_docker import fake_docker

RULE = """\
enabled
interpreter /usr/bin/qemu-aarch64-static
flags: {flags}
offset 0
magic 7f454c460201010000000000000000000200b700
mask ffffffffffffff00fffffffffffffffffeffffff
"""


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, object]]]:
    answer: dict[str, object] = {"status": 200, "headers": {}}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(int(str(answer["status"])))
            for key, value in dict(answer["headers"]).items():  # type: ignore[call-overload]
                self.send_header(key, value)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"127.0.0.1:{running.server_port}", answer
        running.shutdown()
        thread.join()


def test_a_registry_is_recognised_also_behind_a_login(
        server: tuple[str, dict[str, object]]) -> None:
    address, answer = server
    assert host.registry_answers(address)
    answer["status"] = 401
    assert host.registry_answers(address)


def test_something_else_on_the_port_is_an_error(server: tuple[str, dict[str, object]]) -> None:
    address, answer = server
    answer["status"] = 404
    with pytest.raises(EngineError, match="not a container registry"):
        host.registry_answers(address)


def test_nobody_there_is_no_registry() -> None:
    assert not host.registry_answers("127.0.0.1:1")


def test_system_from_os_release(tmp_path: Path) -> None:
    file = tmp_path / "os-release"
    file.write_text('NAME="Debian"\nVERSION_CODENAME=bookworm\nID=debian\n')
    assert host._system(file) == "debian bookworm"
    assert host._system(tmp_path / "none") == ""


@pytest.mark.parametrize(("flags", "found"), [("POF", "emulated"), ("OC", None)])
def test_emulation_counts_only_where_it_reaches_containers(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, found: str | None) -> None:
    monkeypatch.setattr(host.platform, "machine", lambda: "x86_64")
    (tmp_path / "register").write_text("")
    (tmp_path / "qemu-aarch64").write_text(RULE.format(flags=flags))
    assert host._arm64(tmp_path) == found


def test_arm64_is_native_on_arm64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.platform, "machine", lambda: "aarch64")
    assert host._arm64(tmp_path) == "native"


def test_an_engine_that_refuses_this_user_is_not_replaced(
        monkeypatch: pytest.MonkeyPatch) -> None:
    refused = process.Result(("docker",), 1, "", "permission denied while trying to connect")
    monkeypatch.setattr(host, "_program", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(host.process, "run", lambda *a, **k: refused)
    with pytest.raises(EngineError, match="no permission"):
        host._engine_version()


def test_files_outside_etc_are_written_whole(tmp_path: Path) -> None:
    target = tmp_path / "services/registry.yml"
    [write] = [step for step in plan(_without_registry(), tmp_path)
               if isinstance(step.action, WriteFile)]
    host.perform([write], _without_registry())
    assert "addr: 127.0.0.1:5000" in target.read_text()
    assert [file.name for file in target.parent.iterdir()] == ["registry.yml"]


def test_the_summary_names_what_is_missing() -> None:
    rows = dict(host.summary(_without_registry()))
    assert rows["registry"] == "missing"
    assert rows["engine"] == "26.1.5"


def _without_registry() -> Host:
    return replace(WORKING, registry=False)


def test_an_engine_that_hangs_is_an_error_of_the_engine(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = DockerClient((str(fake_docker(tmp_path, "time.sleep(600)")),))
    monkeypatch.setattr(host, "DOCKER", docker)
    monkeypatch.setattr(host, "_program", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(DockerClient.run, "__kwdefaults__",
                        {**(DockerClient.run.__kwdefaults__ or {}), "timeout": 0.5})
    with pytest.raises(EngineError, match="did not complete it"):
        host._engine_version()


@pytest.mark.parametrize("piece", [b"x", b"HTTP/1.1 200 OK\r\nX: y\r\n"], ids=["bytes", "headers"])
def test_a_server_that_trickles_or_never_ends_is_given_up(
        monkeypatch: pytest.MonkeyPatch, piece: bytes) -> None:
    """Without limits a header without end would be read for ever."""
    monkeypatch.setattr(host, "ANSWER_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        def trickle() -> None:
            link, _ = listening.accept()
            with link, suppress(OSError):
                while True:
                    link.sendall(piece)
                    time.sleep(0.05)

        thread = threading.Thread(target=trickle)
        thread.start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert host.registry_answers(address) is piece.startswith(b"HTTP/1.1 200")
        thread.join()
