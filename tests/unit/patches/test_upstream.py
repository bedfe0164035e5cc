"""The client of the hosting service, against a stand-in over a real git repository."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosting_server import HostingServer, serve_hosting

from builder.indexes.http import Client, Pace, SourceError
from builder.indexes.settings import Sources
from builder.patches.upstream import Hosting

REPOSITORY = "owner/name"
NOW = Pace(attempts=3, first_s=0.01, longest_s=0.02)
USER = Sources(default_index="")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HostingServer]:
    with serve_hosting(tmp_path / "repository") as hosting:
        hosting.commit({"vllm/a.py": "one\n"}, "start")
        hosting.commit({"vllm/a.py": "two\n"}, on="fix")
        hosting.open_pull(7, "fix")
        yield hosting


@pytest.fixture
def asks(server: HostingServer, tmp_path: Path) -> Hosting:
    return client(server, tmp_path)


def client(server: HostingServer, cache: Path, token: str = "") -> Hosting:
    return Hosting(USER, cache / "cache", api=server.url, token=token, pace=NOW)


def test_pull_commit_base_and_diff(server: HostingServer, asks: Hosting) -> None:
    pull = asks.pull(REPOSITORY, 7)
    found = asks.commit(REPOSITORY, "fix")
    head, parent = found.sha, found.parents[0].sha
    assert pull.head.sha == head
    assert asks.merge_base(REPOSITORY, "main", "fix") == parent
    diff = asks.diff(REPOSITORY, parent, head)
    assert b"-one\n+two\n" in diff
    assert not asks.contains(REPOSITORY, "main", head)
    assert asks.contains(REPOSITORY, "fix", parent)


def test_the_difference_is_taken_against_the_merge_base(server: HostingServer, asks: Hosting
                                                       ) -> None:
    server.commit({"vllm/b.py": "other\n"}, on="main")
    base = asks.merge_base(REPOSITORY, "main", "fix")
    assert b"b.py" not in asks.diff(REPOSITORY, base, "fix")


def test_an_unchanged_answer_is_asked_for_conditionally(server: HostingServer, tmp_path: Path
                                                        ) -> None:
    first = client(server, tmp_path).pull(REPOSITORY, 7)
    assert client(server, tmp_path).pull(REPOSITORY, 7) == first
    assert [status for _, _, status in server.requests] == [200, 304]


def test_a_changed_answer_is_taken(server: HostingServer, tmp_path: Path) -> None:
    client(server, tmp_path).pull(REPOSITORY, 7)
    server.pulls[7]["state"] = "closed"
    assert client(server, tmp_path).pull(REPOSITORY, 7).state == "closed"


def test_a_kept_answer_that_was_damaged_is_not_trusted(server: HostingServer, tmp_path: Path
                                                       ) -> None:
    first = client(server, tmp_path).pull(REPOSITORY, 7)
    for path in (tmp_path / "cache" / "patches" / "bytes").iterdir():
        path.write_bytes(b"{}")
    assert client(server, tmp_path).pull(REPOSITORY, 7) == first
    assert [status for _, _, status in server.requests] == [200, 200]


def test_one_run_asks_once(server: HostingServer, asks: Hosting) -> None:
    asks.pull(REPOSITORY, 7)
    asks.pull(REPOSITORY, 7)
    assert len(server.requests) == 1


def test_the_token_goes_along_and_a_wrong_one_is_named(server: HostingServer, tmp_path: Path
                                                       ) -> None:
    server.token = "secret"
    assert client(server, tmp_path, "secret").pull(REPOSITORY, 7)
    with pytest.raises(SourceError) as caught:
        client(server, tmp_path / "other", "another").pull(REPOSITORY, 7)
    assert "GITHUB_TOKEN" in caught.value.reason
    assert "another" not in caught.value.reason


def test_the_token_is_written_nowhere(server: HostingServer, tmp_path: Path) -> None:
    server.token = "secret-token"
    client(server, tmp_path, "secret-token").pull(REPOSITORY, 7)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()
                and b"secret-token" in path.read_bytes()]


def test_a_rate_limit_that_ends_soon_is_waited_for(server: HostingServer, asks: Hosting) -> None:
    server.faults = [(403, {"x-ratelimit-remaining": "0",
                            "x-ratelimit-reset": str(int(time.time()))})]
    assert asks.pull(REPOSITORY, 7)
    assert [status for _, _, status in server.requests] == [403, 200]


@pytest.mark.parametrize("headers", [
    {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 3000)},
    {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "inf"},
    {"x-ratelimit-remaining": "0"}, {"Retry-After": "1e99"},
])
def test_a_rate_limit_that_ends_late_ends_all_questions(
        server: HostingServer, asks: Hosting, headers: dict[str, str],
        capsys: pytest.CaptureFixture[str]) -> None:
    server.faults = [(403, headers)]
    for number in (7, 8):
        with pytest.raises(SourceError) as caught:
            asks.pull(REPOSITORY, number)
        # No time of day: the reason goes into locks, which must not change from run to run.
        assert caught.value.reason == ("its rate limit is used up; set GITHUB_TOKEN for a "
                                       "higher limit")
    assert len(server.requests) == 1
    assert re.search(r"is used up until \d{4}-\d\d-\d\d \d\d:\d\d UTC",
                     capsys.readouterr().err)


def test_a_server_in_trouble_is_asked_again(server: HostingServer, asks: Hosting) -> None:
    server.faults = [(502, {}), (429, {"Retry-After": "0"})]
    assert asks.pull(REPOSITORY, 7)
    server.faults = [(503, {})] * 3
    with pytest.raises(SourceError, match="503"):
        asks.comments(REPOSITORY, 7)


@pytest.mark.parametrize(("status", "said"), [
    (404, "HTTP 404"), (406, "HTTP 406"), (422, "cannot compare"),
    (403, "HTTP 403"),
])
def test_what_it_says_no_to_is_said_in_words(server: HostingServer, asks: Hosting, status: int,
                                             said: str) -> None:
    server.faults = [(status, {})]
    with pytest.raises(SourceError, match=said):
        asks.pull(REPOSITORY, 7)
    assert len(server.requests) == 1


def test_an_unreachable_service_is_tried_once_a_run(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = Hosting(USER, tmp_path, api="http://127.0.0.1:9", token="", pace=NOW)
    tried: list[str] = []
    ask = Client.ask
    monkeypatch.setattr(Client, "ask", lambda client, url, headers: (
        tried.append(url), ask(client, url, headers))[1])
    for number in (7, 8):
        with pytest.raises(SourceError, match="no connection"):
            asks.pull(REPOSITORY, number)
    assert len(tried) == NOW.attempts


def test_what_was_refused_is_not_asked_for_again(server: HostingServer, asks: Hosting) -> None:
    for _ in range(3):
        with pytest.raises(SourceError, match="HTTP 404"):
            asks.pull(REPOSITORY, 404)
    assert len(server.requests) == 1


@pytest.mark.parametrize("said", [b"[]", b"null", b"1", b'"x"', b"{}", b"[1]", b"<html>", b"\xff",
                                  b'{"sha": null, "head": {"sha": "x"}, "base": 1}',
                                  b'{"merge_base_commit": {"sha": "zz"}, "status": "ahead"}'])
def test_whatever_it_answers_is_read_or_refused_in_words(
        server: HostingServer, asks: Hosting, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(server, "answer", lambda *_: (200, said))
    for ask in (lambda: asks.pull(REPOSITORY, 7), lambda: asks.commit(REPOSITORY, "fix"),
                lambda: asks.merge_base(REPOSITORY, "main", "fix")):
        with pytest.raises(SourceError, match="its answer"):
            ask()
    for listed in (asks.comments, lambda repository, _: asks.releases(repository)):
        if said != b"[]":
            with pytest.raises(SourceError, match="its answer"):
                listed(REPOSITORY, 7)


def test_what_people_wrote_can_be_shown_on_a_terminal(server: HostingServer, asks: Hosting) -> None:
    server.pulls[7].update(title="a\x1b[2J\nb\ud800", body="one\r\ntwo\x07")
    pull = asks.pull(REPOSITORY, 7)
    assert (pull.title, pull.body) == ("a [2J b", "one\ntwo ")


@pytest.mark.parametrize(("token", "sent"), [("abc\n", "Bearer abc"), (" abc ", "Bearer abc")])
def test_a_token_read_from_a_file(server: HostingServer, tmp_path: Path, token: str, sent: str
                                  ) -> None:
    client(server, tmp_path, token).pull(REPOSITORY, 7)
    assert server.headers[0]["Authorization"] == sent


@pytest.mark.parametrize("token", ["ключ", "a\nb", "a\x01"])
def test_what_can_be_no_token(server: HostingServer, tmp_path: Path, token: str) -> None:
    with pytest.raises(SourceError, match="characters that no token has") as caught:
        client(server, tmp_path, token).pull(REPOSITORY, 7)
    assert token not in caught.value.reason


def test_the_token_stays_with_the_service_that_it_is_for(
        server: HostingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither does a netrc take its place, nor a redirect get it."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password another\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with serve_hosting(tmp_path / "elsewhere") as other:
        other.commit({"a": "a\n"}, "start")
        other.open_pull(7, "main", "another")
        server.faults = [(302, {"Location": f"{other.url}/repos/owner/name/pulls/7"})]
        assert client(server, tmp_path, "secret").pull(REPOSITORY, 7).title == "another"
        assert server.headers[0]["Authorization"] == "Bearer secret"
        assert "secret" not in other.headers[0].get("Authorization", "")


def test_two_services_do_not_share_answers(server: HostingServer, tmp_path: Path) -> None:
    client(server, tmp_path).pull(REPOSITORY, 7)
    Hosting(USER, tmp_path / "cache", api=f"{server.url}/", token="", pace=NOW).pull(REPOSITORY, 7)
    with serve_hosting(tmp_path / "elsewhere") as other:
        other.commit({"a": "a\n"}, "start")
        other.open_pull(7, "main")
        client(other, tmp_path).pull(REPOSITORY, 7)
        assert "If-None-Match" in server.headers[1]
        assert "If-None-Match" not in other.headers[0]


def test_a_refusal_of_one_thing_does_not_stop_the_others(server: HostingServer, asks: Hosting
                                                         ) -> None:
    with pytest.raises(SourceError):
        asks.pull(REPOSITORY, 404)
    assert asks.pull(REPOSITORY, 7)


def test_releases_come_oldest_first_without_drafts(server: HostingServer, asks: Hosting) -> None:
    server.releases = [{"tag_name": "v2", "published_at": "2026-02-01"},
                       {"tag_name": "v3rc1", "published_at": "2026-03-01", "prerelease": True},
                       {"tag_name": "v1", "published_at": "2026-01-01"},
                       {"tag_name": "draft", "published_at": None}]
    assert asks.releases(REPOSITORY) == [("2026-01-01", "v1"), ("2026-02-01", "v2")]
