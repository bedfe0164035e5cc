"""The build's order and its refusals without an engine; whole builds are integration tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builder import build as module
from builder import console
from builder import labels as label
from builder.bases.provision import Origin, ReadyBase
from builder.build import build
from builder.engine.client import Engine, ImageFacts
from builder.errors import EngineError, LockError, VerdictError
from builder.image import ImagePlan, local_name
from builder.layers.layer import ImageLayers
from builder.locking.base_lock import load_bases
from builder.store.content_store import StoredLayer
from builder.workspace import Workspace, open_workspace
from tests.integration.test_build import make_workspace


class Ready(Engine):
    """An engine that has a base, and perhaps the cell's image."""

    def __init__(self, image: ImageFacts | None = None) -> None:
        self.image, self.asked = image, list[str]()

    def inspect(self, reference: str) -> ImageFacts | None:
        self.asked.append(reference)
        return self.image


def facts(labels: dict[str, str]) -> ImageFacts:
    return ImageFacts(id="sha256:1", diff_ids=(), labels=labels, repo_tags=(), repo_digests=(),
                      size=1, platform="linux/amd64", created="", env={})


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Return a workspace with one locked cell, whose base is at hand."""
    made = make_workspace(tmp_path / "work", weights=b"x")
    locked = load_bases(made.locks / "bases.toml")["slim", "linux/amd64"]
    monkeypatch.setattr(module, "ensure", lambda *_, **__: ReadyBase(
        locked, "r/base:x", "r/base@sha256:1", Origin.PRESENT))
    return made


def inputs(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the inputs of the cell's image as the build plans it."""
    plans: list[ImagePlan] = []
    original = module.plan_image

    def planned(*words: Any) -> ImagePlan:
        plans.append(original(*words))
        return plans[-1]

    monkeypatch.setattr(module, "plan_image", planned)
    with monkeypatch.context() as stopping:
        stopping.setattr(module, "_check_versions", lambda *_: next(iter(())))
        with pytest.raises(StopIteration):
            build(workspace, workspace.cells[0], Ready())
    return plans[0].inputs


def test_an_image_of_the_same_inputs_is_not_built_again(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    image = facts({label.INPUTS: inputs(workspace, monkeypatch)})
    monkeypatch.setattr(module, "fetch_cell", lambda *_, **__: pytest.fail("nothing to fetch"))
    built = build(workspace, workspace.cells[0], Ready(image))
    assert built.up_to_date
    assert built.image is image


def test_an_image_of_other_inputs_is_built_again(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fetch_cell", lambda *_, **__: next(iter(())))
    engine = Ready(facts({label.INPUTS: "sha256:other"}))
    with pytest.raises(StopIteration):
        build(workspace, workspace.cells[0], engine)
    assert engine.asked == [local_name(workspace.registry, workspace.cells[0])]


def test_a_build_whose_image_is_not_there_afterwards_is_an_error(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for stage in ("_gate_closure", "remember"):
        monkeypatch.setattr(module, stage, lambda *_: None)
    layer = StoredLayer(digest="0" * 64, size=1, path=Path(), facts={})
    monkeypatch.setattr(module, "cell_layers", lambda *_: ImageLayers(layer, (), None, (), layer))
    monkeypatch.setattr(module, "_bake", lambda *_: 0)
    with pytest.raises(EngineError, match="does not have its image") as caught:
        build(workspace, workspace.cells[0], Ready())
    assert "--load" not in caught.value.next_step


def test_a_stale_lock_is_refused_before_anything_else(workspace: Workspace) -> None:
    matrix = workspace.root / "matrix.toml"
    matrix.write_text(matrix.read_text().replace('"1.0"', '"9.9"'))
    engine, changed = Ready(), open_workspace(matrix)
    with pytest.raises(LockError, match=r"stale|changed"):
        build(changed, changed.cells[0], engine)
    assert engine.asked == []


def test_layers_are_counted_once_each_as_buildkit_reports_them() -> None:
    meter = console.Meter("build", 2.0, None, "layers")
    on_line = module._counting(meter)
    for line in ("#5 [1/3] ADD --link a.tar /", "#5 DONE 0.1s", "#5 DONE 0.1s", "#6 DONE 1s",
                 "#7 [2/3] ADD --link b.tar /", "#7 CACHED", ""):
        on_line(line)
    assert meter.done == 2


def test_a_blocked_cell_names_the_reason_and_its_source(workspace: Workspace) -> None:
    class Blocked:
        id = "cpu-x"

        class blocked:  # noqa: N801
            reason, link = "it does not start", "https://upstream/1"

    with pytest.raises(VerdictError, match="does not start") as caught:
        module._refuse_blocked(workspace, Blocked())  # type: ignore[arg-type]
    assert "https://upstream/1" in caught.value.next_step
