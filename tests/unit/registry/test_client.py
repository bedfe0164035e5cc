"""Requests to a registry: login by both ways, refusals, limits, retries; secrets stay secret."""

from __future__ import annotations

import base64
import gc
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from raw_server import http_reply, raw_server
from registry_server import serving

from builder.errors import NetworkError
from builder.registry import client as registry_client
from builder.registry.client import ATTEMPTS, Client, Reply
from builder.registry.reference import Reference

SECRET = "correct-horse-battery"
USER = f"me:{SECRET}"


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path / "config.json"


def keep(file: Path, host: str, user: str = USER) -> None:
    file.write_text(json.dumps(
        {"auths": {host: {"auth": base64.b64encode(user.encode()).decode()}}}))


def client(host: str) -> Client:
    return Client(Reference(host, "ns/cpu", "t"), pause_s=0.001)


@pytest.mark.parametrize("bearer", [False, True], ids=["basic", "bearer"])
def test_the_login_of_docker_is_used(login: Path, bearer: bool) -> None:
    with serving(user=USER, bearer=bearer) as server:
        keep(login, server.host)
        asked = client(server.host)
        assert asked.ask("GET", asked.url("manifests/t")).status == 404
        assert asked.ask("GET", asked.url("manifests/t")).status == 404
        assert len(server.logins) == int(bearer), "a token is asked for once"


@pytest.mark.parametrize("bearer", [False, True], ids=["basic", "bearer"])
@pytest.mark.parametrize("user", ["", "me:wrong-password"], ids=["none", "wrong"])
def test_without_a_right_login_the_next_step_is_docker_login(
        login: Path, user: str, bearer: bool) -> None:
    with serving(user=USER, bearer=bearer) as server:
        if user:
            keep(login, server.host, user)
        asked = client(server.host)
        with pytest.raises(NetworkError, match="refuses this user, status 401") as caught:
            asked.ask("GET", asked.url("manifests/t"))
    assert caught.value.exit_code == 4
    assert f"docker login {server.host}" in caught.value.next_step
    assert "wrong-password" not in str(caught.value)


def test_a_user_who_may_not_push_is_told() -> None:
    with serving(faults={"POST": [403]}) as server:
        asked = client(server.host)
        with pytest.raises(NetworkError, match="status 403"):
            asked.ask("POST", asked.url("blobs/uploads/"))
        assert server.count("POST") == 1


def test_the_login_goes_to_no_token_service_without_encryption(login: Path) -> None:
    with serving(user=USER, bearer=True, realm="http://192.0.2.1/token") as server:
        keep(login, server.host)
        asked = client(server.host)
        with pytest.raises(NetworkError, match="login without encryption"):
            asked.ask("GET", asked.url("manifests/t"))


@pytest.mark.parametrize(("name", "shown"), [
    ("other", ":other"), ("sha256:" + "0" * 64, "@sha256:" + "0" * 64)])
def test_a_registry_that_fails_is_named_with_what_was_asked_of_it(name: str, shown: str) -> None:
    with serving(faults={"GET": [500] * ATTEMPTS}) as server:
        asked = client(server.host)
        with pytest.raises(NetworkError, match="answered 500") as caught:
            asked.ask("GET", asked.url(f"manifests/{name}"))
    assert caught.value.where == f"{server.host}/ns/cpu{shown}"


def test_a_foreign_host_gets_no_login(login: Path) -> None:
    with serving(user=USER) as server, serving(user=USER) as foreign:
        keep(login, server.host)
        with pytest.raises(NetworkError, match="refuses"):
            client(server.host).ask("GET", f"http://{foreign.host}/v2/ns/cpu/manifests/t")
        assert foreign.logins == []
        assert foreign.count("GET") == 1


def test_an_answer_without_end_is_cut() -> None:
    with serving(endless=True) as server:
        asked = client(server.host)
        with pytest.raises(NetworkError, match="answer is too long"):
            asked.ask("GET", asked.url("manifests/t"))


def test_what_passes_is_tried_again() -> None:
    with serving(faults={"GET": [503, 429]}) as server:
        asked = client(server.host)
        assert asked.ask("GET", asked.url("manifests/t")).status == 404
        assert server.count("GET") == 3


def test_a_registry_that_is_not_there_is_one_clear_error() -> None:
    with serving() as server:
        asked = client(server.host)
    with pytest.raises(NetworkError, match="no connection") as caught:
        asked.ask("GET", asked.url("manifests/t"))
    assert "goes on where it stopped" in caught.value.next_step


def test_a_registry_that_fails_for_good_is_asked_a_few_times() -> None:
    with serving(faults={"GET": [500] * 99}) as server:
        asked = client(server.host)
        with pytest.raises(NetworkError, match="answered 500"):
            asked.ask("GET", asked.url("manifests/t"))
        assert server.count("GET") == ATTEMPTS


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"errors": []}', b'{"errors": [5]}',
                                  b"[" * 100_000])
def test_an_error_page_of_any_kind_is_no_message(body: bytes) -> None:
    assert Reply(500, {}, body).message == ""


def test_the_message_of_a_registry_is_one_visible_line() -> None:
    body = json.dumps({"errors": [{"code": "A", "message": "b\n\x1b[2J" + "x" * 999}]}).encode()
    message = Reply(500, {}, body).message
    assert message.startswith("A b \\x1b[2Jx")
    assert len(message) < 250


@pytest.mark.parametrize("token", ["t\r\nX: y", "\u1234", "", 7, {"a": 1}, "x" * 70_000])
def test_a_token_that_is_none_is_refused(token: object) -> None:
    """Found by fuzzing: it would stand in a header of the next request."""
    data = json.dumps({"token": token}).encode()
    with raw_server([http_reply(200, data)]) as service:
        realm = f'Bearer realm="http://{service}/token"'
        with raw_server([http_reply(401, WWW_Authenticate=realm)]) as host, \
                pytest.raises(NetworkError, match="refuses this user"):
            client(host).ask("GET", f"http://{host}/v2/ns/cpu/manifests/t")


@pytest.mark.parametrize("realm", ["http://[", "https://", "//x", "ftp://x/", "https://["])
def test_a_login_service_without_a_usable_address_is_refused(realm: str) -> None:
    with raw_server([http_reply(401, WWW_Authenticate=f'Bearer realm="{realm}"')]) as host, \
            pytest.raises(NetworkError, match="does not say where to log in"):
        client(host).ask("GET", f"http://{host}/v2/ns/cpu/manifests/t")


def test_an_upload_to_an_address_that_is_none_is_refused() -> None:
    asked = client("127.0.0.1:1")
    with pytest.raises(NetworkError, match="does not say where to upload to"):
        asked.location(Reply(202, {"location": "http://["}), "http://127.0.0.1:1/v2/")


def test_an_answer_of_single_bytes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte begins a socket's own time limit anew; a full read would wait for 64 kB."""
    monkeypatch.setattr(registry_client, "ANSWER_S", 0.3)
    with raw_server([http_reply(200, b"x" * 600)], pause_s=0.02) as host, \
            pytest.raises(NetworkError, match="not complete after"):
        client(host).ask("GET", f"http://{host}/v2/ns/cpu/manifests/t")


def test_headers_of_single_bytes_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_client, "HEADERS_S", 0.2)
    with raw_server([http_reply(200, X="x" * 20)], 0.02, whole_head=False) as host, \
            pytest.raises(NetworkError, match="not complete after"):
        client(host).ask("GET", f"http://{host}/v2/ns/cpu/manifests/t")


def test_an_upload_that_makes_too_little_headway_is_given_up(monkeypatch: pytest.MonkeyPatch
                                                             ) -> None:
    """Each byte that passes begins the limit of silence anew, so one on the whole is needed."""
    monkeypatch.setattr(registry_client, "REGISTRY_UPLOAD_S", 0.2)
    with raw_server([http_reply(202, X="x" * 20)], 0.02, whole_head=False) as host, \
            pytest.raises(NetworkError, match="does not take an upload: not complete after"):
        client(host).once("PATCH", f"http://{host}/v2/ns/cpu/blobs/uploads/1", body=b"x")


@pytest.fixture
def _requests_drops_a_connection() -> Iterator[None]:
    """Collect what requests leaves open when it ends in a ValueError, here and not later."""
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore:unclosed")
@pytest.mark.usefixtures("_requests_drops_a_connection")
@pytest.mark.parametrize("location", ["http://[", "http://\xff\xfe/", "http://127.0.0.1:x/"])
def test_a_redirect_to_no_address_is_one_clear_error(location: str) -> None:
    """Found by fuzzing: requests itself ends in a ValueError."""
    data = http_reply(301, Location="X").replace(b"X\r\n\r\n", location.encode("latin-1")
                                                 + b"\r\n\r\n")
    with raw_server([data]) as host, pytest.raises(NetworkError, match="cannot be used: "):
        client(host).ask("GET", f"http://{host}/v2/ns/cpu/manifests/t")
