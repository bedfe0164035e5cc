"""``build``: what is shown of a built image and of one that is up to date, and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builder.build import Built
from builder.cli import run
from builder.commands import build as command
from builder.engine.client import Engine, ImageFacts
from builder.publish import Pushed
from builder.store.content_store import StoredLayer
from builder.workspace import Workspace
from tests.integration.test_build import make_workspace

IMAGE = ImageFacts(id="sha256:image", diff_ids=("sha256:1", "sha256:2"), labels={"k": "v"},
                   repo_tags=(), repo_digests=(), size=3_000_000, platform="linux/amd64",
                   created="", env={})
LAYER = StoredLayer("d" * 64, 2_000_000, Path("x"), {"kind": "wheel", "wheels": ["a-1.whl"]})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Take the engine's place; ``layers`` and ``unlocked`` say what a build comes to."""
    plan: dict[str, Any] = {"layers": (LAYER,), "unlocked": "", "builder": None, "built": []}

    def built(workspace: Workspace, cell: Any, engine: Any) -> Built:
        plan["built"].append(cell.id)
        named: Any = SimpleNamespace(name="r/probe:tag", tag="tag", unlocked=plan["unlocked"])
        return Built(cell, named, IMAGE, plan["layers"], 1_000_000, {"base": 1.0})

    def connect(builder: str | None = None) -> None:
        plan["builder"] = builder

    monkeypatch.setattr(command, "build", built)
    monkeypatch.setattr(Engine, "connect", connect)
    return plan


def run_build(tmp_path: Path, *words: str) -> int:
    workspace = make_workspace(tmp_path / "work", weights=b"x")
    return run(["--matrix", str(workspace.root / "matrix.toml"), "build", *words])


def test_a_built_image_is_shown_with_its_layers(
        asked: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_build(tmp_path, "probe", "--builder", "mine") == 0
    said = capsys.readouterr()
    assert "a-1.whl" in said.out
    assert "2.0 MB" in said.out
    assert "dddddddddddd" in said.out
    assert "r/probe:tag" in said.out
    assert "sha256:image; not verified on GB10 by a build" in said.err
    assert asked["builder"] == "mine"
    assert asked["built"] == ["probe"]


def test_one_that_is_up_to_date_has_no_layers_to_show(
        asked: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked["layers"] = ()
    assert run_build(tmp_path, "probe") == 0
    said = capsys.readouterr()
    assert "probe: up to date: r/probe:tag" in said.err
    assert "layers of probe" not in said.out + said.err


def test_an_unlocked_base_is_said_with_its_reason(
        asked: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked["unlocked"] = "the base is this machine's own"
    assert run_build(tmp_path, "probe") == 0
    assert "unlocked: the base is this machine's own" in capsys.readouterr().out


@pytest.mark.parametrize("push", [False, True])
def test_json_is_one_document_with_what_was_pushed(
        asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str], push: bool) -> None:
    facts = Pushed("r/probe:tag", "sha256:m", (), "", ())
    monkeypatch.setattr(command.push, "push_cell", lambda *_: facts)
    assert run_build(tmp_path, "probe", "--json", *(["--push"] if push else [])) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["cell"], found["image"], found["built"], found["sent"]) == (
        "probe", "r/probe:tag", True, 1_000_000)
    assert found["layers"] == [{"digest": "d" * 64, "size": 2_000_000, "kind": "wheel",
                                "wheels": ["a-1.whl"]}]
    assert (found["pushed"] or {}).get("digest") == ("sha256:m" if push else None)


def test_cells_of_another_base_are_not_built(
        asked: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_build(tmp_path, "probe", "--base", "cuda") == 2
    assert asked["built"] == []
    assert "error" in capsys.readouterr().err
