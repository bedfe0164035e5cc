"""What a server answers about itself: limited, refused in words, and never a leak or a crash."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.bench import client as bench_client
from builder.bench.client import BenchClient
from builder.errors import EngineError, SparkyardError, UsageError

EXAMPLES = int(os.environ.get("SPARKYARD_FUZZ_EXAMPLES", "60"))
OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
Answer = Callable[[socket.socket], None]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve every connection with ``answer``, which sends whatever bytes it likes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        going = [True]

        def serve() -> None:
            while going:
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                with connection:
                    try:
                        connection.recv(65536)
                        answer(connection)
                    except OSError:
                        continue

        thread = Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            going.clear()
            thread.join()


def sends(data: bytes) -> Answer:
    return lambda connection: connection.sendall(data)


def endless(connection: socket.socket) -> None:
    connection.sendall(OK + b"\r\n")
    while True:
        connection.sendall(b" " * 65536)


def trickling(connection: socket.socket) -> None:
    for byte in OK + b"\r\n" + b" " * 20:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def body(value: Any) -> bytes:
    return OK + b"\r\n" + json.dumps(value).encode()


def context_of(answer: Answer, name: str = "tiny") -> int:
    with answering(answer) as address:
        return BenchClient(f"http://{address}", name).context()


def test_an_endless_answer_is_given_up_after_a_megabyte() -> None:
    with pytest.raises(EngineError, match="its answer is more than 1 MB"):
        context_of(endless)


def test_an_answer_of_one_byte_at_a_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte begins a socket's own time limit anew, so that it never ends one."""
    monkeypatch.setattr(bench_client, "ANSWER_S", 0.5)
    with pytest.raises(EngineError, match="its answer is not complete after"):
        context_of(trickling)


def test_an_emulated_server_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def noting(seconds: float, ask: Any) -> Any:
        given.append(seconds)
        return ask()

    monkeypatch.setattr(bench_client, "within", noting)
    models = body({"data": [{"id": "tiny", "max_model_len": 9}]})
    for patience in (1.0, 10.0):
        with answering(sends(models)) as address:
            assert BenchClient(f"http://{address}", "tiny", patience).context() == 9
    assert given == [bench_client.ANSWER_S, 10 * bench_client.ANSWER_S]


@pytest.mark.parametrize(("status", "told"), [
    (401, "HTTP 401: it wants a key or a password"), (403, "HTTP 403"),
    (404, "HTTP 404: there is no OpenAI API"), (500, "HTTP 500: the server itself has failed"),
    (503, "HTTP 503: the server itself has failed"), (301, "HTTP 301"), (204, "HTTP 204")])
def test_another_status_is_named(status: int, told: str) -> None:
    answer = sends(f"HTTP/1.1 {status} X\r\nLocation: http://127.0.0.1:9/\r\n"
                   "Content-Length: 0\r\n\r\n".encode())
    with pytest.raises(EngineError, match=told) as error:
        context_of(answer)
    assert error.value.next_step


@pytest.mark.parametrize(("value", "told"), [
    ([], "not a list of models"), ({"data": 1}, "not a list of models"),
    ({"data": [{"id": "tiny"}]}, "context length of tiny"),
    ({"data": [{"id": "tiny", "max_model_len": "2048"}]}, "context length of tiny"),
    ({"data": [{"id": "tiny", "max_model_len": 0}]}, "context length of tiny"),
    ({"data": [{"id": "tiny", "max_model_len": True}]}, "context length of tiny")])
def test_what_a_vllm_server_would_not_answer_is_named(value: Any, told: str) -> None:
    with pytest.raises(EngineError, match=told):
        context_of(sends(body(value)))


@pytest.mark.parametrize("data", [b"", b"nonsense\r\n\r\n", OK + b"\r\n<html>",
                                  OK + b"Content-Length: 9\r\n\r\n{}",
                                  OK + b"Content-Encoding: gzip\r\n\r\nxx",
                                  OK + b"\r\n" + b"[" * 100_000])
def test_broken_answers_are_one_error(data: bytes) -> None:
    with pytest.raises(EngineError, match="does not say which models it serves"):
        context_of(sends(data))


def test_names_of_models_cannot_drive_the_terminal() -> None:
    answer = sends(body({"data": [{"id": "evil\x1b]0;owned\x07" + "x" * 999, "max_model_len": 1},
                                  {"id": 7}, "text"]}))
    with pytest.raises(UsageError, match="does not serve tiny") as error:
        context_of(answer)
    assert error.value.what.isprintable()
    assert len(error.value.what) < 400


def test_a_version_is_shown_in_one_line_or_not_at_all() -> None:
    for value, shown in (({"version": "0.32.0\x1b[2J"}, r"0.32.0\x1b[2J"), ({"version": 1}, ""),
                         ([], ""), ({}, "")):
        with answering(sends(body(value))) as address:
            assert BenchClient(f"http://{address}", "tiny").version() == shown


@pytest.mark.parametrize("answer", [sends(b""), sends(OK + b"\r\n{}"), sends(body({"data": []})),
                                    sends(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n")])
def test_a_password_in_the_address_is_in_no_error(answer: Answer) -> None:
    with answering(answer) as address, pytest.raises(SparkyardError) as error:
        BenchClient(f"http://me:hunter22@{address}", "tiny").context()
    parts = (error.value.what, error.value.where, error.value.next_step)
    assert "hunter22" not in "".join(parts)
    assert "***@127.0.0.1" in error.value.where


def test_a_password_in_the_address_is_sent() -> None:
    seen = []

    def answer(connection: socket.socket) -> None:
        seen.append(True)
        connection.sendall(body({"data": [{"id": "tiny", "max_model_len": 5}]}))

    with answering(answer) as address:
        client = BenchClient(f"http://me:hunter22@{address}", "tiny")
        assert client.context() == 5
    assert seen
    assert "hunter22" in client.base
    assert "hunter22" not in client.shown


@pytest.mark.parametrize("url", [
    "", "spark:8000", "ftp://host", "http://", "http://:8000", "http://host:99999", "http://host:0",
    "http://host:x", "http://[::1", "http://a b", "http://host/v1?x=1", "http://h\x1b[2J",
    "file:///etc/passwd"])
def test_what_is_not_the_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="not the address of a server") as error:
        BenchClient(url, "tiny")
    assert error.value.where.isprintable()


def test_a_refused_address_shows_no_password() -> None:
    with pytest.raises(UsageError) as error:
        BenchClient("http://me:hunter22@host:99999", "tiny")
    assert "hunter22" not in str(error.value)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                    lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.sampled_from(["data", "id", "max_model_len", "version"])
                                      | st.text(max_size=3), inner, max_size=3), max_leaves=12)


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda data: OK + b"\r\n" + data)
       | JSON.map(body))
def test_no_answer_breaks_the_client(data: bytes) -> None:
    with answering(sends(data)) as address:
        client = BenchClient(f"http://{address}", "tiny")
        try:
            length = client.context()
        except SparkyardError:
            length = 1
        assert length > 0
        assert client.version().isprintable()
