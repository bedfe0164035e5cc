"""Listings of the Simple API as indexes really write them."""

from __future__ import annotations

import json

import pytest

from builder.indexes import simple_api
from builder.indexes.simple_api import JSON_TYPE, Listed, lists_files, parse, parse_html

URL = "https://index.example/simple/demo/"
SHA = "ab" * 32


def anchor(href: str) -> bytes:
    return f'<a href="{href}" data-requires-python="&gt;=3.8">text</a>'.encode()


@pytest.mark.parametrize(("href", "url"), [
    ("../../files/demo-1.whl", "https://index.example/files/demo-1.whl"),
    ("demo-1.whl", "https://index.example/simple/demo/demo-1.whl"),
    ("/f/demo-1.whl", "https://index.example/f/demo-1.whl"),
    ("https://files.example/demo-1.whl?a=1&amp;b=2", "https://files.example/demo-1.whl?a=1&b=2"),
])
def test_addresses_are_completed(href: str, url: str) -> None:
    (found,) = parse_html(anchor(href), URL)
    assert (found.url, found.sha256, found.file) == (url, None, "demo-1.whl")


@pytest.mark.parametrize(("fragment", "digest"), [
    (f"sha256={SHA}", SHA), (f"sha256={SHA.upper()}", SHA), (f"egg=demo&sha256={SHA}", SHA),
    ("md5=0123", None), ("sha256=short", None), ("", None)])
def test_digests(fragment: str, digest: str | None) -> None:
    (found,) = parse_html(anchor(f"demo-1.whl#{fragment}"), URL)
    assert found.sha256 == digest


def test_a_local_version_is_unquoted() -> None:
    (found,) = parse_html(anchor("torch-2.13.0%2Bcpu-cp311.whl"), URL)
    assert found.file == "torch-2.13.0+cpu-cp311.whl"


def test_base_moves_relative_links() -> None:
    page = b'<base href="https://files.example/x/">' + anchor("demo-1.whl")
    assert parse_html(page, URL)[0].url == "https://files.example/x/demo-1.whl"


def test_what_is_no_link_is_passed_over() -> None:
    assert parse_html(b"<!-- <a href='x.whl'> --><a name='top'>x</a><link href='y.whl'>", URL) == []


def test_json() -> None:
    page = {"files": [{"filename": "demo-1.whl", "url": "demo-1.whl", "hashes": {"sha256": SHA}},
                      {"filename": "demo-2.whl", "url": "/demo-2.whl", "hashes": {}}]}
    assert parse(json.dumps(page).encode(), JSON_TYPE + "; charset=utf-8", URL) == [
        Listed(URL + "demo-1.whl", SHA), Listed("https://index.example/demo-2.whl", None)]


@pytest.mark.parametrize(("body", "kind"), [
    (b"[]", JSON_TYPE), (b'{"files": [1]}', JSON_TYPE), (b"{", JSON_TYPE),
    (b"%PDF", "application/pdf")])
def test_another_kind_of_page_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(ValueError, match=r"page|Expecting"):
        parse(body, kind, URL)


@pytest.mark.parametrize(("body", "kind", "said"), [
    (anchor("demo-1-py3-none-any.whl"), "text/html", True), (anchor("demo-1.tar.gz"), "", True),
    (b'{"files": [{"url": "demo-1.whl", "hashes": {}}]}', JSON_TYPE, True),
    (b"<html>Please sign in: <a href='/login'>here</a></html>", "text/html", False),
    (b"", "text/html", False), (b"{}", "application/json", False), (b'{"files": []}', JSON_TYPE,
                                                                    False),
    (b"[" * 100_000, JSON_TYPE, False)])
def test_a_project_s_page_is_told_from_a_portal_s(body: bytes, kind: str, said: bool) -> None:
    assert lists_files(body, kind, URL) is said


@pytest.mark.parametrize("page", [b"<![x[", b"<![ [x]]><b>x</b>", b"<a href='//[x'>"])
def test_broken_html_is_no_page(page: bytes) -> None:
    """Found by fuzzing: the parser of the standard library ends in an AssertionError."""
    with pytest.raises(ValueError, match=r"broken|IPv6"):
        parse(page, "text/html", URL)


def test_pages_that_would_take_hours_or_all_memory_are_given_up(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simple_api, "READ_S", 0.0)
    with pytest.raises(ValueError, match="not read after"):
        parse_html(b"<" * 100_000, URL)
    monkeypatch.setattr(simple_api, "READ_S", 60.0)
    monkeypatch.setattr(simple_api, "MAX_LISTED", 10)
    with pytest.raises(ValueError, match="lists more than 10 files"):
        parse_html(anchor("x.whl") * 11, URL)


def test_a_page_may_be_cut_anywhere_between_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    page = anchor("a-1.whl#sha256=" + SHA) * 50
    whole = parse_html(page, URL)
    for size in (1, 7, 64):
        monkeypatch.setattr(simple_api, "PIECE", size)
        assert parse_html(page, URL) == whole
