"""A blob into a registry: looked for, mounted, continued, sent; and what goes wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from registry_server import RegistryServer, digest_of, serving
from urllib3.connection import HTTPConnection

from builder.errors import NetworkError
from builder.registry import body, upload
from builder.registry.client import ATTEMPTS, Client
from builder.registry.reference import Reference
from builder.registry.upload import Blob, Outcome, Uploader

DATA = bytes(range(256)) * 40
BLOB = Blob(digest_of(DATA), len(DATA), DATA)
CHUNK = 1024


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "CHUNK_BYTES", CHUNK)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with serving() as state:
        yield state


def uploader(server: RegistryServer, folder: Path, *siblings: str) -> Uploader:
    return Uploader(Client(Reference(server.host, "ns/cpu", "t"), pause_s=0.001),
                    folder / "uploads", siblings)


def test_a_missing_blob_is_sent_in_chunks(server: RegistryServer, tmp_path: Path) -> None:
    done = uploader(server, tmp_path).deliver(BLOB)
    assert (done.outcome, done.sent) == (Outcome.SENT, len(DATA))
    assert server.blobs["ns/cpu", BLOB.digest] == DATA
    assert server.count("PATCH") == len(DATA) // CHUNK
    assert list((tmp_path / "uploads").iterdir()) == []


def test_a_blob_of_a_file_is_the_file(server: RegistryServer, tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(DATA)
    uploader(server, tmp_path).deliver(Blob(BLOB.digest, len(DATA), path))
    assert server.blobs["ns/cpu", BLOB.digest] == DATA


def test_a_file_is_sent_through_a_small_buffer(
        server: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "READ_BYTES", 300)
    monkeypatch.setattr(body.Pool, "ConnectionCls", HTTPConnection)  # knows no pieces of files
    path = tmp_path / "blob"
    path.write_bytes(DATA)
    server.drops = {"PATCH": 4}
    done = uploader(server, tmp_path).deliver(Blob(BLOB.digest, len(DATA), path))
    assert done.sent == len(DATA)
    assert server.blobs["ns/cpu", BLOB.digest] == DATA


def test_a_file_that_became_shorter_is_no_blob(server: RegistryServer, tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(DATA[:-1])
    with pytest.raises(NetworkError, match="the registry cannot be used"):
        uploader(server, tmp_path).deliver(Blob(BLOB.digest, len(DATA), path))
    assert server.blobs == {}


def test_a_blob_that_is_there_is_not_sent(server: RegistryServer, tmp_path: Path) -> None:
    server.blobs["ns/cpu", BLOB.digest] = DATA
    done = uploader(server, tmp_path, "ns/other").deliver(BLOB)
    assert (done.outcome, done.sent) == (Outcome.PRESENT, 0)
    assert [method for method, _ in server.requests] == ["HEAD"]


def test_a_blob_of_a_sibling_is_mounted(server: RegistryServer, tmp_path: Path) -> None:
    server.blobs["ns/other", BLOB.digest] = DATA
    done = uploader(server, tmp_path, "ns/empty", "ns/cpu", "ns/other").deliver(BLOB)
    assert (done.outcome, done.sent) == (Outcome.MOUNTED, 0)
    assert server.count("PATCH") == 0
    assert server.blobs["ns/cpu", BLOB.digest] == DATA


def test_siblings_that_the_registry_does_not_have_are_asked_for_once(
        server: RegistryServer, tmp_path: Path) -> None:
    server.blobs["ns/other", digest_of(b"x")] = b"x"
    sender = uploader(server, tmp_path, "ns/empty", "ns/other", "ns/none")
    for data in (b"a", b"b", b"c"):
        sender.deliver(Blob(digest_of(data), 1, data))
    asked = [path for method, path in server.requests if "ns/cpu" not in path]
    assert len([path for path in asked if "/tags/list" in path]) == 3
    assert [path for path in asked if "/blobs/" in path and "ns/other" not in path] == []


def killed_after(server: RegistryServer, folder: Path, chunks: int) -> None:
    """Push as a process that is killed: the step of a chunk raises, nothing is tidied up."""
    left = iter(range(chunks))

    def step(_count: int) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    killed = uploader(server, folder)
    killed.step = step
    with pytest.raises(KeyboardInterrupt):
        killed.deliver(BLOB)


def test_a_killed_upload_goes_on(server: RegistryServer, tmp_path: Path) -> None:
    killed_after(server, tmp_path, 3)
    assert ("ns/cpu", BLOB.digest) not in server.blobs
    done = uploader(server, tmp_path).deliver(BLOB)
    # The fourth chunk had arrived; only what was not there is sent.
    assert done.sent == len(DATA) - 4 * CHUNK
    assert server.blobs["ns/cpu", BLOB.digest] == DATA


def test_an_upload_that_the_registry_forgot_starts_again(
        server: RegistryServer, tmp_path: Path) -> None:
    killed_after(server, tmp_path, 3)
    server.uploads.clear()
    assert uploader(server, tmp_path).deliver(BLOB).sent == len(DATA)
    assert server.blobs["ns/cpu", BLOB.digest] == DATA


def test_an_upload_with_wrong_bytes_starts_again(server: RegistryServer, tmp_path: Path) -> None:
    killed_after(server, tmp_path, 3)
    server.uploads["u0"][0] ^= 1
    uploader(server, tmp_path).deliver(BLOB)
    assert server.blobs["ns/cpu", BLOB.digest] == DATA


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"location": 5}', "[" * 100_000,
                                  '{"location": "http://127.0.0.1:1/elsewhere"}'])
def test_a_damaged_note_is_no_note(server: RegistryServer, tmp_path: Path, text: str) -> None:
    name = hashlib.sha256(f"{server.host}/ns/cpu@{BLOB.digest}".encode()).hexdigest()
    (tmp_path / "uploads").mkdir()
    (tmp_path / "uploads" / f"{name}.json").write_text(text)
    assert uploader(server, tmp_path).deliver(BLOB).sent == len(DATA)


def test_a_note_is_what_the_test_above_damages(server: RegistryServer, tmp_path: Path) -> None:
    killed_after(server, tmp_path, 1)
    name = hashlib.sha256(f"{server.host}/ns/cpu@{BLOB.digest}".encode()).hexdigest()
    note = json.loads((tmp_path / "uploads" / f"{name}.json").read_text())
    assert note["location"].startswith(f"http://{server.host}/v2/ns/cpu/blobs/uploads/")


def test_a_broken_connection_is_tried_again_from_where_it_stands(
        server: RegistryServer, tmp_path: Path) -> None:
    server.drops = {"PATCH": 4}
    done = uploader(server, tmp_path).deliver(BLOB)
    assert done.sent == len(DATA)
    assert server.blobs["ns/cpu", BLOB.digest] == DATA
    assert server.count("POST") == 1, "it went on with the same upload"


def test_a_registry_that_refuses_half_way_for_a_while(
        server: RegistryServer, tmp_path: Path) -> None:
    server.faults = {"PATCH": [0, 0, 500, 503]}
    uploader(server, tmp_path).deliver(BLOB)
    assert server.blobs["ns/cpu", BLOB.digest] == DATA


@pytest.mark.parametrize("status", [500, 507])
def test_a_registry_that_fails_for_good_is_one_clear_error(
        server: RegistryServer, tmp_path: Path, status: int) -> None:
    server.faults = {"PATCH": [0, *[status] * 99]}
    with pytest.raises(NetworkError, match=rf"answered {status} \(FAULT as the test") as caught:
        uploader(server, tmp_path).deliver(BLOB)
    assert "run the same command again" in caught.value.next_step
    assert server.count("PATCH") == 1 + ATTEMPTS
    assert server.blobs == {}


def test_a_blob_of_which_the_registry_cannot_tell_is_sent_again(
        server: RegistryServer, tmp_path: Path) -> None:
    server.faults = {"HEAD": [500] * ATTEMPTS}
    assert uploader(server, tmp_path).deliver(BLOB).outcome is Outcome.SENT
    assert server.blobs["ns/cpu", BLOB.digest] == DATA


def test_a_blob_that_the_registry_does_not_confirm_is_an_error(
        server: RegistryServer, tmp_path: Path) -> None:
    server.faults = {"HEAD": [500] * 99}
    with pytest.raises(NetworkError, match="answered 500"):
        uploader(server, tmp_path).deliver(BLOB)


def test_a_status_that_no_second_attempt_helps_is_not_repeated(
        server: RegistryServer, tmp_path: Path) -> None:
    server.faults = {"PATCH": [413] * 9}
    with pytest.raises(NetworkError, match="does not take an upload: it answered 413"):
        uploader(server, tmp_path).deliver(BLOB)
    assert server.count("PATCH") == 1


def test_a_registry_that_loses_what_it_took_is_named(
        server: RegistryServer, tmp_path: Path) -> None:
    server.swallow = True
    with pytest.raises(NetworkError, match="does not have it afterwards"):
        uploader(server, tmp_path).deliver(BLOB)


@pytest.mark.parametrize("lie", ["wrong_size", "wrong_digest"])
@pytest.mark.parametrize("there", [True, False])
def test_a_registry_that_lies_about_a_digest_is_named(
        server: RegistryServer, tmp_path: Path, lie: str, there: bool) -> None:
    if there:
        server.blobs["ns/cpu", BLOB.digest] = DATA
    setattr(server, lie, True)
    with pytest.raises(NetworkError, match="other bytes under this digest"):
        uploader(server, tmp_path).deliver(BLOB)


def test_no_byte_goes_to_another_host_without_encryption(
        server: RegistryServer, tmp_path: Path) -> None:
    server.foreign = "http://192.0.2.1"
    with pytest.raises(NetworkError, match="without encryption"):
        uploader(server, tmp_path).deliver(BLOB)
