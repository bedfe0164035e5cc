"""Fetching: every fault of a real index, resuming, and what is never trusted or shown."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from index_server import Fault, IndexServer, serve_index

from builder import files as disk
from builder.errors import DiskError, IntegrityError, NetworkError
from builder.fetch.wheels import FetchedWheels, fetch_lock
from builder.indexes.http import Pace
from builder.indexes.settings import Sources
from builder.locking.lock import Lock, LockedWheel
from builder.matrix.models import Index
from builder.store.content_store import Store

QUICK = Pace(attempts=3, first_s=0.001, longest_s=0.01)
DATA = random.Random(1).randbytes(300_000)
REFUSED = "http://127.0.0.1:9/simple"  # the discard port: nothing listens


@pytest.fixture
def index() -> Iterator[IndexServer]:
    with serve_index() as server:
        yield server


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def fetch(store: Store, *wheels: LockedWheel, user: Sources,
          indexes: dict[str, Index] | None = None) -> FetchedWheels:
    lock = Lock(cell="cpu", intent="sha256:0", python="3.11", platform="p", wheels=wheels)
    return fetch_lock(lock, store, indexes or {}, user=user, pace=QUICK)


def file_path(wheel: LockedWheel) -> str:
    return f"/files/{wheel.file}"


def final_files(store: Store) -> list[Path]:
    return [path for path in (store.root / "wheels").rglob("*") if path.is_file()]


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "html"])
def test_wheels_come_from_the_index_once_and_then_from_the_store(
        index: IndexServer, store: Store, as_json: bool) -> None:
    index.as_json = as_json
    wheels = [index.add("alpha", DATA), index.add("beta", b"small")]
    user = Sources(index.url)
    done = fetch(store, *wheels, user=user)
    assert {wheel.name: path.read_bytes() for wheel, path in done.paths.items()} == {
        "alpha": DATA, "beta": b"small"}
    assert (set(done.fetched), done.fetched_bytes) == (set(wheels), len(DATA) + 5)
    asked = len(index.requests)
    again = fetch(store, *wheels, user=user)
    assert (again.fetched, again.paths) == ((), done.paths)
    assert len(index.requests) == asked
    assert list((store.root / "partial").iterdir()) == []


def test_many_wheels_are_asked_for_with_one_request_each(index: IndexServer, store: Store) -> None:
    wheels = [index.add(f"many{number}", DATA[number:]) for number in range(30)]
    done = fetch(store, *wheels, user=Sources(index.url))
    assert len(done.paths) == 30
    assert len(index.requests) == 60


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_passing_fault_is_retried(index: IndexServer, store: Store, status: int) -> None:
    wheel = index.add("alpha", DATA)
    index.faults["/simple/alpha/"] = [Fault(status)]
    index.faults[file_path(wheel)] = [Fault(status, {"Retry-After": "0"}), Fault(status)]
    assert fetch(store, wheel, user=Sources(index.url)).fetched == (wheel,)


def test_a_body_cut_short_is_continued_not_repeated(index: IndexServer, store: Store) -> None:
    wheel = index.add("alpha", DATA)
    index.faults[file_path(wheel)] = [Fault(cut_after=100_000), Fault(cut_after=50_000)]
    fetch(store, wheel, user=Sources(index.url))
    assert index.sent[file_path(wheel)] == len(DATA)
    assert [headers.get("Range") for path, headers in index.requests if path.startswith("/files")
            ] == [None, "bytes=100000-", "bytes=150000-"]


def test_a_server_without_ranges_is_asked_from_the_start(index: IndexServer, store: Store) -> None:
    index.ranges = False
    wheel = index.add("alpha", DATA)
    index.faults[file_path(wheel)] = [Fault(cut_after=100_000)]
    done = fetch(store, wheel, user=Sources(index.url))
    assert done.paths[wheel].read_bytes() == DATA


def test_what_a_killed_run_left_is_continued(index: IndexServer, store: Store) -> None:
    wheel = index.add("alpha", DATA)
    store.partial_path(wheel).write_bytes(DATA[:200_000])
    done = fetch(store, wheel, user=Sources(index.url))
    assert done.paths[wheel].read_bytes() == DATA
    assert index.sent[file_path(wheel)] == len(DATA) - 200_000


@pytest.mark.parametrize("left", [b"x" * 200_000, b"x" * len(DATA), b"x" * 400_000],
                         ids=["start", "whole", "too long"])
def test_a_damaged_left_over_is_fetched_again(index: IndexServer, store: Store, left: bytes
                                              ) -> None:
    wheel = index.add("alpha", DATA)
    store.partial_path(wheel).write_bytes(left)
    assert fetch(store, wheel, user=Sources(index.url)).paths[wheel].read_bytes() == DATA


def test_a_complete_left_over_needs_no_transfer(index: IndexServer, store: Store) -> None:
    wheel = index.add("alpha", DATA)
    store.partial_path(wheel).write_bytes(DATA)
    fetch(store, wheel, user=Sources(index.url))
    assert index.sent[file_path(wheel)] == 0


@pytest.mark.parametrize("cut", [slice(0, -1), slice(0, None)], ids=["cut short", "same size"])
def test_an_altered_store_file_is_fetched_again(index: IndexServer, store: Store, cut: slice
                                                ) -> None:
    wheel = index.add("alpha", DATA)
    path = fetch(store, wheel, user=Sources(index.url)).paths[wheel]
    path.chmod(0o644)
    path.write_bytes((b"!" + DATA[1:])[cut])
    assert fetch(store, wheel, user=Sources(index.url)).fetched == (wheel,)
    assert path.read_bytes() == DATA


def test_other_bytes_of_the_same_size_show_expected_and_actual(
        index: IndexServer, store: Store) -> None:
    wheel = index.add("alpha", DATA, serve=b"!" + DATA[1:])
    with pytest.raises(IntegrityError) as caught:
        fetch(store, wheel, user=Sources(index.url))
    assert wheel.sha256 in caught.value.expected
    assert caught.value.actual.startswith("sha256 ")
    assert wheel.sha256 not in caught.value.actual
    assert caught.value.exit_code == 4
    assert final_files(store) == []
    assert list((store.root / "partial").iterdir()) == []


@pytest.mark.parametrize("serve", [DATA[:-1], DATA + b"!"], ids=["shorter", "longer"])
def test_bytes_of_another_size_are_refused_before_they_are_read(
        index: IndexServer, store: Store, serve: bytes) -> None:
    wheel = index.add("alpha", DATA, serve=serve)
    with pytest.raises(IntegrityError) as caught:
        fetch(store, wheel, user=Sources(index.url))
    assert caught.value.expected == f"{len(DATA)} bytes"
    assert f"{len(serve)} bytes" in caught.value.actual
    assert "the size in the lock is wrong" in caught.value.next_step
    assert len(index.paths("/files/")) == 1


def test_another_digest_in_the_listing_is_refused_without_a_transfer(
        index: IndexServer, store: Store) -> None:
    wheel = index.add("alpha", DATA)
    index.listed[wheel.file] = "f" * 64
    with pytest.raises(IntegrityError, match="listed by default"):
        fetch(store, wheel, user=Sources(index.url))
    assert index.paths("/files/") == []


def test_another_source_with_the_locked_bytes_is_used(index: IndexServer, store: Store) -> None:
    with serve_index() as other:
        wheel = other.add("alpha", DATA)
        index.add("alpha", DATA, serve=b"!" + DATA[1:])
        done = fetch(store, wheel, user=Sources(index.url, (other.url,)))
    assert done.paths[wheel].read_bytes() == DATA


def test_the_locked_index_is_asked_first_and_only_for_its_packages(
        index: IndexServer, store: Store) -> None:
    with serve_index() as named:
        wheel = named.add("alpha", DATA, index="upstream")
        beta = index.add("beta", b"b")
        known = Index.model_construct(url=named.url, packages=("alpha",))
        fetch(store, wheel, beta, user=Sources(index.url), indexes={"upstream": known})
        assert named.paths("beta") == []
    assert index.paths("alpha") == []


def test_folders_and_pages_of_wheels(index: IndexServer, store: Store, tmp_path: Path) -> None:
    alpha, beta = index.add("alpha", DATA), index.add("beta", b"b")
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / alpha.file).write_bytes(DATA)
    page = index.url.replace("/simple", "/flat.html")
    done = fetch(store, alpha, beta, user=Sources(REFUSED, find_links=(str(folder), page)))
    assert done.paths[alpha].read_bytes() == DATA
    assert index.paths(alpha.file) == []
    assert not done.paths[alpha].samefile(folder / alpha.file)


def test_an_index_in_a_folder(index: IndexServer, store: Store, tmp_path: Path) -> None:
    wheel = index.add("alpha", DATA)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / wheel.file).write_bytes(DATA)
    (tmp_path / "simple" / "alpha").mkdir(parents=True)
    (tmp_path / "simple" / "alpha" / "index.html").write_text(
        f'<a href="../../files/{wheel.file}#sha256={wheel.sha256}">{wheel.file}</a>')
    user = Sources(REFUSED, ((tmp_path / "simple").as_uri(),))
    assert fetch(store, wheel, user=user).paths[wheel].read_bytes() == DATA


def test_nowhere_names_the_wheel_and_the_sources(index: IndexServer, store: Store) -> None:
    wheel = index.add("alpha", DATA)
    index.files.clear()
    with pytest.raises(NetworkError) as caught:
        fetch(store, wheel, user=Sources(index.url, (index.url,)))
    assert "no source has alpha-1.0-py3-none-any.whl" in caught.value.what
    assert "default: does not have it\n  extra index 1: does not have it" in caught.value.what


def test_an_index_that_keeps_failing_is_one_error(index: IndexServer, store: Store) -> None:
    wheels = [index.add(name, DATA) for name in ("alpha", "beta")]
    index.always = {f"/simple/{name}/": Fault(500) for name in ("alpha", "beta")}
    with pytest.raises(NetworkError, match="default: answered 500"):
        fetch(store, *wheels, user=Sources(index.url))


def test_no_network_is_one_error(index: IndexServer, store: Store) -> None:
    with pytest.raises(NetworkError, match="default: no connection") as caught:
        fetch(store, index.add("alpha", DATA), user=Sources(REFUSED))
    assert caught.value.exit_code == 4


def test_no_address_and_no_credential_is_shown(index: IndexServer, store: Store,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    wheel = index.add("alpha", DATA)
    index.always[file_path(wheel)] = Fault(403)
    address = index.url.replace("http://", "http://user:hunter2@")
    with pytest.raises(NetworkError) as caught:
        fetch(store, wheel, user=Sources(address, (REFUSED.replace("//", "//u:s3cret@"),)))
    shown = str(caught.value) + "".join(capsys.readouterr())
    assert "default: answered 403" in shown
    assert not any(word in shown for word in ("hunter2", "s3cret", "127.0.0.1"))
    assert index.requests[0][1]["Authorization"].startswith("Basic ")
    assert index.requests[-1][1]["Authorization"].startswith("Basic ")


def test_netrc_is_honoured(index: IndexServer, store: Store, tmp_path: Path,
                           monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = index.add("alpha", DATA)
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    fetch(store, wheel, user=Sources(index.url))
    assert all(headers["Authorization"].startswith("Basic ") for _, headers in index.requests)


def test_a_proxy_from_pip_is_used(index: IndexServer, store: Store,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    wheel = index.add("alpha", DATA)
    proxy = index.url.removesuffix("/simple")
    with pytest.raises(NetworkError):
        fetch(store, wheel, user=Sources("http://index.invalid/simple", proxy=proxy))
    assert index.requests[0][0] == "http://index.invalid/simple/alpha/"


def test_disk_is_checked_before_the_first_byte(index: IndexServer, store: Store,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = index.add("alpha", DATA)
    store.partial_path(wheel).write_bytes(DATA[:100_000])
    monkeypatch.setattr(disk, "free_bytes", lambda path: 199_999)
    with pytest.raises(DiskError, match="200 kB needed, 200 kB free"):
        fetch(store, wheel, user=Sources(index.url))
    assert index.requests == []
    monkeypatch.setattr(disk, "free_bytes", lambda path: 200_000)
    fetch(store, wheel, user=Sources(index.url))


def test_what_others_fetched_is_kept_when_one_fails(index: IndexServer, store: Store) -> None:
    good, bad = index.add("alpha", DATA), index.add("beta", b"b")
    index.always[file_path(bad)] = Fault(404)
    with pytest.raises(NetworkError):
        fetch(store, good, bad, user=Sources(index.url))
    index.always.clear()
    path = store.partial_path(good)
    kept = path.stat().st_size if path.exists() else 0
    index.requests.clear()
    fetch(store, good, bad, user=Sources(index.url))
    ranges = [headers.get("Range") for path, headers in index.requests if path == file_path(good)]
    assert ranges in ([[f"bytes={kept}-"]] if 0 < kept < len(DATA) else [[None], []])


def test_a_compiled_wheel_is_compiled_and_not_locked_again(index: IndexServer, store: Store
                                                           ) -> None:
    wheel = index.add("alpha", b"x" * 10).model_copy(update={"index": "compiled"})
    index.files.clear()
    index.listed.clear()
    with pytest.raises(NetworkError, match="was compiled") as caught:
        fetch(store, wheel, user=Sources(index.url))
    assert "wheels -- build" in caught.value.next_step
