"""The client of a served model: limits in bytes and time, broken answers, and streams in pieces."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import Mock

import pytest

from builder.smoke import client as module
from builder.smoke.client import Client, Unanswered, assemble

OK = b"HTTP/1.1 200 OK\r\n"


def take_request(connection: socket.socket) -> None:
    """Read a whole request: a connection closed before that would be reset."""
    head, _, body = connection.recv(65_536).partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while length and len(body) < int(length[1]):
        body += connection.recv(65_536)


@contextmanager
def answering(write: Callable[[socket.socket, threading.Event], None]) -> Iterator[Client]:
    """Serve whatever ``write`` sends to each connection, until it stops or the block ends."""
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    take_request(connection)
                    write(connection, over)
                except OSError:
                    continue

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Client(listener.getsockname()[1], "tiny")
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def whole(*parts: bytes) -> Callable[[socket.socket, threading.Event], None]:
    return lambda connection, over: connection.sendall(b"".join(parts))


def endless(piece: bytes, pause: float) -> Callable[[socket.socket, threading.Event], None]:
    def write(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(OK + b"\r\n")
        while not over.is_set():
            connection.sendall(piece)
            over.wait(pause)
    return write


REQUEST = {"model": "tiny"}


def test_a_server_that_closes_after_a_bad_request_is_still_healthy() -> None:
    def once(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}")
        connection.recv(65_536)  # takes another question, and leaves it without an answer
    with answering(once) as client:
        assert [client.status(REQUEST), client.health()] == [400, 400]


def test_an_endless_answer_is_given_up_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_BYTES", 1_000_000)
    with answering(endless(b"x" * 65_536, 0)) as client:
        with pytest.raises(Unanswered, match="more than 1 MB") as told:
            client.chat(REQUEST)
        assert not told.value.timed_out
        with pytest.raises(Unanswered, match="the stream broke: more than 1 MB"):
            list(client.events(REQUEST))


def test_an_answer_of_single_bytes_is_given_up_by_its_time(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, the answer never does."""
    with answering(endless(b"x", 0.02)) as client:
        with pytest.raises(Unanswered, match="timed out: not complete") as told:
            client.chat(REQUEST, timeout=0.3)
        assert told.value.timed_out
        response = client._send("POST", "/", stream=True)
        with pytest.raises(Unanswered, match="not complete") as told:
            list(module.lines(response, 0.3))
        assert told.value.timed_out
        response.close()


def test_a_server_that_says_nothing_times_out() -> None:
    with answering(lambda connection, over: over.wait(30) and None) as client:
        with pytest.raises(Unanswered) as told:
            client.chat(REQUEST, timeout=0.2)
        assert told.value.timed_out


def trickling_headers(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(OK)
    while not over.is_set():
        connection.sendall(b"X")
        over.wait(0.02)


def test_headers_of_single_bytes_are_given_up_by_their_time() -> None:
    """Each byte begins a socket's own time limit anew."""
    with answering(trickling_headers) as client, pytest.raises(Unanswered) as told:
        client.chat(REQUEST, timeout=0.2)
    assert told.value.timed_out


def test_nobody_there_is_no_answer_and_no_timeout() -> None:
    client = Client(1, "tiny")
    assert (client.health(), client.healthy()) == (0, False)
    assert client.unhealthy() == "/health no longer answers 200"
    with pytest.raises(Unanswered, match="no whole answer") as told:
        client.chat(REQUEST)
    assert not told.value.timed_out


@pytest.mark.parametrize(("answer", "text"), [
    ((OK, b"Content-Length: 2\r\n\r\n[]"), "not a JSON object"),
    ((OK, b"\r\n<html>proxy</html>"), "the answer is not JSON: '<html>proxy"),
    ((OK, b"\r\n" + b"[" * 100_000), "the answer is not JSON"),
    ((OK, b"Content-Length: 90\r\n\r\n{"), "no whole answer"),
    ((b"HTTP/1.1 401 Unauthorized\r\n\r\nno key",), "status 401: no key"),
    ((b"HTTP/1.1 500 Oh\r\n\r\n{}",), "status 500: {}"),
    ((b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n",), "status 302"),
    ((b"nonsense\r\n\r\n",), "no whole answer")])
def test_a_wrong_answer_is_told_as_such(answer: tuple[bytes, ...], text: str) -> None:
    with answering(whole(*answer)) as client:
        with pytest.raises(Unanswered, match=text):
            client.chat(REQUEST)
        with pytest.raises(Unanswered):
            list(client.events(REQUEST))


def test_an_answer_is_utf_8_whatever_its_header_says() -> None:
    with answering(whole(OK, b"Content-Type: application/json\r\n\r\n",
                         '{"text": "Größe, 東京"}'.encode())) as client:
        assert client.chat(REQUEST) == {"text": "Größe, 東京"}


def test_a_stream_comes_line_by_line_whatever_its_pieces() -> None:
    body = b'data: {"a": 1}\r\n\r\ndata: {"b": "\xc3\xa9"}\n\ndata: [DONE]\n\n'
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (
        body[:3], body[3:25], body[25:])) + b"0\r\n\r\n"
    with answering(whole(OK, b"Transfer-Encoding: chunked\r\n\r\n", chunks)) as client:
        assert list(client.events(REQUEST)) == [{"a": 1}, {"b": "é"}]


@pytest.mark.parametrize(("pieces", "found"), [
    ([b"a", b"b", b"c\nd", b"\n", b"\ne"], [b"abc", b"d", b"", b"e"]), ([b"a\r\n"], [b"a"]),
    ([b"a\r", b"\nb"], [b"a", b"b"]), ([], []),
    ([b"x" * 1000] * 900 + [b"\n"] + [b"y" * 1000] * 900 + [b"\n"],
     [b"x" * 900_000, b"y" * 900_000])])
def test_a_line_may_come_in_many_pieces(
        monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], found: list[bytes]) -> None:
    monkeypatch.setattr(module, "_pieces", lambda _: iter(pieces))
    assert list(module.lines(Mock(), 9)) == found


def test_a_line_without_an_end_is_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([b"x" * 1000] * 9000)
    monkeypatch.setattr(module, "_pieces", lambda _: left)
    with pytest.raises(Unanswered, match="a line of more than 1 MB"):
        list(module.lines(Mock(), 9))
    assert len(list(left)) > 7000, "the rest is not read"


def test_metrics_that_are_no_numbers_are_left_out() -> None:
    text = b"vllm:a{x=\"1\"} 2\nvllm:b NaN\nvllm:c none\nvllm:d_bucket{le=\"1\"} 3\nother 1\n"
    with answering(whole(OK, b"\r\n", text)) as client:
        assert client.metrics() == {'vllm:a{x="1"}': 2.0}


def test_a_failure_shows_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(1, "tiny")
    client.base = "http://user:hunter2hunter2@127.0.0.1:1"
    with pytest.raises(Unanswered) as told:
        client.chat(REQUEST)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(("tokens", "whole_answer"), [(8, True), (65, False)])
def test_a_long_stream_in_one_piece_is_none_but_a_busy_server_merges_short_ones(
        tokens: int, whole_answer: bool) -> None:
    chunks = [{"choices": [{"delta": {"content": "A story."}, "finish_reason": "stop"}]},
              {"choices": [], "usage": {"completion_tokens": tokens}}]
    if whole_answer:
        assert assemble(iter(chunks))["choices"][0]["message"]["content"] == "A story."
    else:
        with pytest.raises(Unanswered, match="one piece"):
            assemble(iter(chunks))


@pytest.mark.parametrize("index", [10**9, -1, 128])
def test_an_absurd_number_of_a_tool_call_is_no_memory_eater(index: int) -> None:
    piece = {"index": index, "function": {"name": "x"}}
    with pytest.raises(Unanswered, match="a piece of tool call"):
        assemble(iter([{"choices": [{"delta": {"tool_calls": [piece]}}]}]))


def test_a_key_goes_with_every_request_and_to_another_clients_too() -> None:
    heads: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve() -> None:
            for _ in range(3):
                connection, _address = listener.accept()
                with connection:
                    heads.append(connection.recv(65_536))
                    connection.sendall(OK + b"content-length: 0\r\nconnection: close\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        keyed = Client(port, "tiny", key="sk-1")
        assert keyed.healthy()
        assert keyed.another().healthy()
        assert Client(port, "tiny").healthy()
        thread.join()
    assert [b"Bearer sk-1" in head for head in heads] == [True, True, False]


def test_an_address_of_this_machine_is_asked_there() -> None:
    assert Client(8000, "tiny").base == "http://127.0.0.1:8000"
    assert Client(8000, "tiny", host="10.0.0.7").another().base == "http://10.0.0.7:8000"
    assert Client(8000, "tiny", host="::1").base == "http://[::1]:8000"
