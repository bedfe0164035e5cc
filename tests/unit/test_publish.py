"""What may be pushed: locked images, and as candidates only those that passed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builder import labels as label
from builder.engine.client import ImageFacts, RemoteLayer
from builder.errors import NetworkError, VerdictError
from builder.publish import push_immutable, push_next, reference_of
from tests.unit.record.test_models import a_record, keep

TAG = "r/cpu:cpu-0.32.0-abcdefabcdef"


class Pushes:
    """Stands in for an engine and writes down what it is told to push."""

    def __init__(self, *before: str, damaged: Collection[str] = ()) -> None:
        self.pushed: list[str] = []
        self.before, self.damaged = before, damaged

    def push(self, reference: str) -> str:
        self.pushed.append(reference)
        return "sha256:manifest"

    def remote_layers(self, reference: str) -> tuple[RemoteLayer, ...] | None:
        there = {"r/cpu:cpu": ("a", "b"), "r/cpu:old": ("b",)}
        if reference in self.damaged:
            raise NetworkError("it answered 500")
        if self.pushed:
            there[TAG] = ("a", "b", "c")
        elif self.before:
            there[TAG] = self.before
        names = there.get(reference)
        return None if names is None else tuple(RemoteLayer(name, 10) for name in names)

    def tag(self, reference: str, new: str) -> None:
        assert (reference, new) == ("sha256:1", "r/cpu:cpu-next")


def an_image(status: str = "locked") -> ImageFacts:
    labels = {label.STATUS: status, label.INPUTS: "sha256:abcdefabcdef0",
              label.CELL: "cpu"}
    return ImageFacts(id="sha256:1", diff_ids=(), labels=labels, repo_tags=("r/cpu:cpu", TAG),
                      repo_digests=(), size=1, platform="linux/amd64", created="", env={})


def test_only_the_immutable_tag_is_pushed() -> None:
    engine: Any = Pushes()
    pushed = push_immutable(engine, an_image(), "r/cpu:cpu")
    assert (pushed.reference, pushed.digest, pushed.size) == (TAG, "sha256:manifest", 30)
    assert engine.pushed == [TAG]


def test_the_tag_of_another_registry_is_not_pushed() -> None:
    engine: Any = Pushes()
    elsewhere = replace(an_image(), repo_tags=("a/cpu:cpu-0.32.0-abcdefabcdef", TAG))
    assert push_immutable(engine, elsewhere, "r/cpu:cpu").reference == TAG
    with pytest.raises(VerdictError, match="no tag that names"):
        push_immutable(engine, elsewhere, "z/cpu:cpu")
    assert engine.pushed == [TAG]


def test_an_update_costs_the_layers_that_the_last_image_lacks() -> None:
    pushed = push_immutable(Pushes(), an_image(), "r/cpu:cpu")  # type: ignore[arg-type]
    assert (pushed.previous, pushed.to_pull) == ("r/cpu:cpu", 10)
    assert [layer.digest for layer in pushed.missing] == ["c"]


def test_an_update_can_be_measured_against_another_image() -> None:
    pushed = push_immutable(Pushes(), an_image(), "r/cpu:cpu", "r/cpu:old")  # type: ignore[arg-type]
    assert (pushed.previous, pushed.to_pull) == ("r/cpu:old", 20)


@pytest.mark.parametrize(("before", "warns"), [
    ((), False), (("a", "b", "c"), False), (("a", "b"), True)])
def test_an_immutable_tag_that_becomes_another_packing_is_said(
        before: tuple[str, ...], warns: bool, capsys: pytest.CaptureFixture[str]) -> None:
    push_immutable(Pushes(*before), an_image(), "r/cpu:cpu")  # type: ignore[arg-type]
    assert (f"{TAG} has other layers in the registry now" in capsys.readouterr().err) is warns


def test_a_damaged_name_is_no_reason_not_to_push() -> None:
    engine: Any = Pushes(damaged=("r/cpu:cpu-next", "r/cpu:cpu"))
    assert push_immutable(engine, an_image(), "r/cpu:cpu").previous == ""
    engine = Pushes(damaged=("r/cpu:old",))
    with pytest.raises(NetworkError):
        push_immutable(engine, an_image(), "r/cpu:cpu", "r/cpu:old")
    assert engine.pushed == []


def test_the_first_image_is_pulled_whole() -> None:
    pushed = push_immutable(Pushes(), an_image(), "r/cpu:other")  # type: ignore[arg-type]
    assert (pushed.previous, pushed.to_pull) == ("", 30)


def test_nothing_is_pushed_when_the_image_to_compare_with_is_not_there() -> None:
    engine: Any = Pushes()
    with pytest.raises(VerdictError, match="named by --since"):
        push_immutable(engine, an_image(), "r/cpu:cpu", "r/cpu:never")
    assert engine.pushed == []


def test_an_unlocked_image_is_refused() -> None:
    engine: Any = Pushes()
    with pytest.raises(VerdictError, match="unlocked base"):
        push_immutable(engine, an_image("unlocked"), "r/cpu:cpu")
    assert engine.pushed == []


def test_a_candidate_needs_a_passed_smoke(tmp_path: Path) -> None:
    engine: Any = Pushes()
    with pytest.raises(VerdictError, match="has not passed"):
        push_next(engine, an_image(), "r/cpu:cpu", tmp_path)
    keep(tmp_path, a_record())
    push_next(engine, an_image(), "r/cpu:cpu", tmp_path)
    assert engine.pushed == ["r/cpu:cpu-next"]


def test_others_get_a_digest_where_a_record_of_this_lock_has_one() -> None:
    lock: Any = SimpleNamespace(digest="sha256:lock")
    old = a_record().model_copy(update={
        "labels": {label.LOCK: "sha256:lock"}, "image_digest": "sha256:old"})
    new = old.model_copy(update={"image_digest": "sha256:new"})
    assert reference_of([old, new], "r/cpu:cpu", lock, TAG)[0] == "r/cpu@sha256:new"
    for other in (new.model_copy(update={"labels": {label.LOCK: "sha256:other"}}),
                  new.model_copy(update={"image_digest": ""}),
                  new.model_copy(update={"image": "elsewhere/cpu:cpu"})):
        assert reference_of([other], "r/cpu:cpu", lock, TAG)[0] == TAG


def test_without_a_record_the_immutable_tag_and_then_the_name_that_moves() -> None:
    lock: Any = SimpleNamespace(digest="sha256:lock")
    assert "immutable tag" in reference_of([], "r/cpu:cpu", lock, TAG)[1]
    reference, what = reference_of([], "r/cpu:cpu", None, "")
    assert reference == "r/cpu:cpu"
    assert "moves" in what
