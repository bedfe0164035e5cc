"""Sources and their listings: which are asked, in which order, and what an answer may be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from index_server import Fault, IndexServer, serve_index

from builder.indexes.http import Client, Pace, SourceError
from builder.indexes.listings import (
    Listings,
    Source,
    local_path,
    sources_for,
    with_credentials,
)
from builder.indexes.settings import Sources
from builder.matrix.models import Index


@pytest.fixture
def index() -> Iterator[IndexServer]:
    with serve_index() as server:
        yield server


def listings(index: IndexServer) -> Listings:
    return Listings(Client(Sources(index.url)), Pace(attempts=1), threading.Event())


def test_the_locked_index_is_asked_before_the_default_and_folders_before_both() -> None:
    named = {"up": Index(url="https://up.example/x", packages=("torch",))}
    user = Sources("https://default.example", ("https://more.example",), ("/wheels",))
    order = [source.name for source in sources_for("torch", "up", named, user)]
    assert order == ["find-links 1", "up", "default", "extra index 1"]
    assert "up" not in {source.name for source in sources_for("pip", "default", named, user)}


def test_a_page_is_asked_for_once(index: IndexServer) -> None:
    wheel = index.add("demo", b"x")
    asked = listings(index)
    for _ in range(2):
        (link,) = asked.links(Source("default", index.url), "demo", wheel.file)
        assert link.sha256 == wheel.sha256
    assert len(index.paths("/simple/demo/")) == 1


def test_what_is_no_page_of_an_index_is_said_so(index: IndexServer) -> None:
    index.always["/simple/demo/"] = Fault(200, {"Content-Type": "application/pdf"})
    with pytest.raises(SourceError, match="something else than a package index's page"):
        listings(index).links(Source("default", index.url), "demo", "demo.whl")


def test_a_source_that_is_down_is_asked_no_more(index: IndexServer) -> None:
    index.always["/simple/demo/"] = Fault(503)
    asked = listings(index)
    for project in ("demo", "other"):
        with pytest.raises(SourceError, match="answered 503"):
            asked.links(Source("default", index.url), project, "x.whl")
    assert len(index.requests) == 1


def test_a_folder_of_wheels_is_a_source(tmp_path: Path, index: IndexServer) -> None:
    (tmp_path / "demo-1-py3-none-any.whl").write_bytes(b"x")
    source = Source("find-links 1", str(tmp_path), flat=True)
    (link,) = listings(index).links(source, "demo", "demo-1-py3-none-any.whl")
    assert local_path(link.url) == tmp_path / "demo-1-py3-none-any.whl"


@pytest.mark.parametrize(("url", "expected"), [
    ("https://x.example/f.whl", "https://me:pw@x.example/f.whl"),
    ("https://y.example/f.whl", "https://y.example/f.whl"),
    ("http://x.example/f.whl", "http://x.example/f.whl")])
def test_credentials_stay_with_their_host(url: str, expected: str) -> None:
    assert with_credentials(url, "https://me:pw@x.example/simple") == expected
