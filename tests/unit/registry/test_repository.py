"""Manifests, blobs, tags and referrers of a repository, with the referrers API and without."""

from __future__ import annotations

import json

import pytest

from builder.errors import NetworkError
from builder.registry.client import OtherBytesError, Reply
from builder.registry.repository import (
    EMPTY,
    INDEX_TYPE,
    LIST_ATTEMPTS,
    fallback_tag,
)
from tests.unit.fake_repository import Memory, digest_of, put_image, repository

KIND = "application/vnd.example+json"
LOST = "application/vnd.example.lost+json"


@pytest.mark.parametrize("api", [True, False])
def test_what_is_attached_is_found_and_read(api: bool) -> None:
    memory = Memory(referrers_api=api)
    there, image = repository(memory), put_image(memory, "x", tags=["x"])
    first = there.attach(image, KIND, b"{}", {"n": "1"}, "a.json")
    there.attach(image, "text/plain", b"other", {}, "b.txt")
    assert there.attach(image, KIND, b"{}", {"n": "1"}, "a.json") == first
    (found,) = there.referrers(image.digest, KIND)
    assert (found.digest, dict(found.notes)) == (first, {"n": "1"})
    assert len(there.referrers(image.digest)) == 2
    assert there.attached(found, image.digest) == b"{}"
    assert there.attached(found, "sha256:other") is None
    assert (fallback_tag(image.digest) in memory.tags) is not api


def test_a_list_with_other_bytes_than_the_registry_says_begins_anew() -> None:
    """They may read as an empty list, which refuses nobody."""
    memory = Memory()
    there, image = repository(memory), put_image(memory, "x")
    there.attach(image, KIND, b"{1}", {}, "a.json")
    tag = fallback_tag(image.digest)
    memory.manifests[memory.tags[tag]] = (bytes(40), INDEX_TYPE)
    for ask in (lambda: there.referrers(image.digest), lambda: there.manifest(tag),
                lambda: there.attach(image, KIND, b"{2}", {}, "b.json")):
        with pytest.raises(OtherBytesError, match="other bytes"):
            ask()
    assert there.mend_list(image, LOST, {})
    assert [one.type for one in there.referrers(image.digest)] == [LOST]
    first = memory.tags[tag]
    memory.manifests[first] = (bytes(40), INDEX_TYPE)
    assert there.mend_list(image, LOST, {})
    assert memory.tags[tag] != first, "a registry does not write again what it has, however damaged"


@pytest.mark.parametrize("which", ["blob", "artifact", "list"])
def test_what_a_full_disk_damaged_is_mended_by_attaching_again(which: str) -> None:
    memory = Memory()
    there, image = repository(memory), put_image(memory, "x")
    first = there.attach(image, KIND, b"{1}", {}, "a.json")
    there.attach(image, KIND, b"{2}", {}, "b.json")
    tag = fallback_tag(image.digest)
    damaged = {"blob": digest_of(b"{1}"), "artifact": first, "list": tag}[which]
    memory.damaged.add(damaged)
    assert there.mend_list(image, LOST, {"when": "now"}) == (which == "list")
    assert there.attach(image, KIND, b"{1}", {}, "a.json") == first
    found = there.referrers(image.digest, KIND)
    assert len(found) == (1 if which == "list" else 2)
    assert there.attached(found[0], image.digest) == b"{1}"
    assert [one.notes for one in there.referrers(image.digest, LOST)] == (
        [{"when": "now"}] if which == "list" else [])
    assert memory.damaged == set()
    assert not there.mend_list(image, LOST, {}), "a list that can be read stays as it is"


def test_a_list_that_begins_anew_says_so_from_its_first_moment() -> None:
    memory = Memory()
    there, image = repository(memory), put_image(memory, "x")
    there.attach(image, KIND, b"{1}", {}, "a.json")
    memory.damaged.add(fallback_tag(image.digest))
    lists: list[list[str]] = []
    memory.on_tag = lambda name, digest: lists.append([
        one["artifactType"] for one in json.loads(memory.manifests[digest][0])["manifests"]])
    assert there.mend_list(image, LOST, {})
    assert lists == [[LOST]]


def test_a_registry_with_referrers_of_its_own_has_no_list_to_mend() -> None:
    memory = Memory(referrers_api=True)
    there, image = repository(memory), put_image(memory, "x")
    memory.damaged.add(fallback_tag(image.digest))
    assert not there.mend_list(image, LOST, {})
    assert memory.tags == {}


def test_the_list_of_referrers_is_an_index_that_other_tools_read() -> None:
    memory = Memory()
    there, image = repository(memory), put_image(memory, "x")
    there.attach(image, KIND, b"{}", {}, "a.json")
    index = there.manifest(fallback_tag(image.digest))
    assert index is not None
    assert index.media_type == INDEX_TYPE
    (entry,) = index.value["manifests"]
    assert entry["artifactType"] == KIND
    artifact = there.manifest(entry["digest"])
    assert artifact is not None
    assert artifact.value["subject"]["digest"] == image.digest
    assert entry["size"] == len(artifact.data)


def test_an_entry_that_another_run_wrote_over_is_added_again() -> None:
    memory = Memory()
    there, image = repository(memory), put_image(memory, "x")
    tag, writes = fallback_tag(image.digest), []

    def overwrite(name: str, digest: str) -> None:
        if name == tag:
            writes.append(digest)

    memory.on_tag = overwrite
    other = repository(memory)
    other.attach(image, KIND, b"[]", {}, "other")
    before = memory.tags[tag]

    def lose(name: str, digest: str) -> None:
        overwrite(name, digest)
        if name == tag and len(writes) == 2:  # what this run wrote is gone at once
            memory.tags[tag] = before

    memory.on_tag = lose
    there.attach(image, KIND, b"{}", {}, "mine")
    assert len(there.referrers(image.digest)) == 2


def test_a_list_that_never_keeps_an_entry_is_an_error() -> None:
    memory = Memory()
    there, image = repository(memory), put_image(memory, "x")
    empty = json.dumps({"mediaType": INDEX_TYPE, "manifests": []}).encode()
    tag = fallback_tag(image.digest)

    def forget(name: str, digest: str) -> None:
        if name == tag:
            memory.manifests[digest_of(empty)] = (empty, INDEX_TYPE)
            memory.tags[tag] = digest_of(empty)

    memory.on_tag = forget
    with pytest.raises(NetworkError, match="keeps changing"):
        there.attach(image, KIND, b"{}", {}, "mine")
    assert sum(request == ("PUT", f"manifests/{tag}") for request in memory.requests) == (
        LIST_ATTEMPTS)


def test_tags_come_page_by_page() -> None:
    memory = Memory(page=2)
    put_image(memory, "x", tags=["a", "b", "c", "d", "e"])
    assert repository(memory).tags() == ("a", "b", "c", "d", "e")
    assert repository(Memory()).tags() == ()


def test_other_bytes_than_the_digests_are_an_error() -> None:
    memory = Memory()
    image = put_image(memory, "x")
    memory.manifests[image.digest] = (b"{}", "t")
    memory.blobs["sha256:1"] = b"x"
    for ask in (lambda: repository(memory).manifest(image.digest),
                lambda: repository(memory).blob("sha256:1")):
        with pytest.raises(NetworkError, match="other bytes"):
            ask()
    assert repository(memory).blob("sha256:2") is None
    assert repository(memory).manifest("sha256:2") is None


@pytest.mark.parametrize("ask", ["tags", "manifest", "blob", "put", "put_blob", "referrers"])
def test_an_unexpected_answer_is_an_error_with_the_repository(ask: str) -> None:
    there = repository(Memory())
    there.client.ask = lambda *_, **__: Reply(418, {})  # type: ignore[method-assign]
    calls = {"tags": there.tags, "manifest": lambda: there.manifest("x"),
             "blob": lambda: there.blob("sha256:1"), "put": lambda: there.put("x", b"", "t"),
             "put_blob": lambda: there.put_blob(EMPTY), "referrers": lambda: there.referrers("x")}
    with pytest.raises(NetworkError) as caught:
        calls[ask]()
    assert (caught.value.where, "418" in caught.value.what) == ("127.0.0.1:5000/team/cpu", True)


def test_manifests_that_are_no_objects_have_no_fields() -> None:
    memory = Memory()
    repository(memory).put("x", b"[1]", "t")
    found = repository(memory).manifest("x")
    assert found is not None
    assert (found.value, found.config, found.media_type) == ({}, "", "t")
