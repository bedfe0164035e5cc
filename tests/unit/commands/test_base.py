"""``base``: what is passed over, what a check refuses, and what the table says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builder import cli
from builder.bases.facts import commit, pack, write_facts
from builder.bases.provision import Origin, ReadyBase
from builder.bases.state import (
    CUDA_DOCKERFILE,
    CUDA_RECIPE,
    RECIPES,
    SLIM_RECIPE,
    load_slim_recipe,
    lock_file,
)
from builder.commands import base as base_command
from builder.engine.client import Engine
from builder.errors import NetworkError
from builder.locking.base_lock import load_bases, write_bases
from builder.matrix.load import load_matrix
from builder.workspace import Workspace
from tests.unit.bases.test_facts import FACTS
from tests.unit.bases.test_provision import CUDA, MATRIX, SLIM
from tests.unit.locking.test_base_lock import make_base


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    (tmp_path / RECIPES).mkdir(parents=True)
    (tmp_path / SLIM_RECIPE).write_text(SLIM)
    (tmp_path / CUDA_RECIPE).write_text(CUDA)
    (tmp_path / CUDA_DOCKERFILE).write_text("FROM x\n")
    (tmp_path / "matrix.toml").write_text(MATRIX)
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    return Workspace(tmp_path, load_matrix(tmp_path / "matrix.toml"), (), tmp_path / "cache")


def lock_slim(workspace: Workspace) -> None:
    recipe = load_slim_recipe(workspace.root).digest
    made = (make_base(platform, recipe=recipe) for platform in ("linux/arm64", "linux/amd64"))
    write_bases(lock_file(workspace), {base.key: base for base in made})


def base(workspace: Workspace, *words: str) -> int:
    return cli.run(["--matrix", str(workspace.root / "matrix.toml"), "base", *words])


def test_check_names_every_missing_base_at_once(
        workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert base(workspace, "--check") == 3
    errors = capsys.readouterr().err
    assert "slim linux/arm64: it is not locked yet" in errors
    assert "slim linux/amd64: it is not locked yet" in errors
    assert "./nox -s base -- slim --upgrade" in errors


def test_check_passes_over_a_cuda_base_that_nobody_made(
        workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    lock_slim(workspace)
    assert base(workspace, "--check") == 0
    assert "base cuda linux/arm64 is skipped" in capsys.readouterr().err


def test_check_refuses_facts_that_are_cut_off_or_of_another_base(
        workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    lock_slim(workspace)
    locked = load_bases(lock_file(workspace))["slim", "linux/arm64"]
    path = commit(workspace.locks, locked, FACTS)
    assert base(workspace, "--check") == 0
    path.write_bytes(path.read_bytes()[:100])
    assert base(workspace, "--check") == 3
    assert "slim linux/arm64: its committed facts cannot be used: it is " in capsys.readouterr().err
    write_facts(workspace.locks, locked, pack(replace(FACTS, digest="sha256:" + "c" * 64)))
    assert base(workspace, "--check") == 3
    said = capsys.readouterr().err
    assert "its committed facts are of another base; take back the committed one with `git" in said


def test_check_refuses_a_stale_lock(
        workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    lock_slim(workspace)
    (workspace.root / SLIM_RECIPE).write_text(SLIM.replace("gcc", "clang"))
    assert base(workspace, "--check") == 3
    assert "slim.* or the matrix entry has changed" in capsys.readouterr().err


def test_check_and_upgrade_are_two_questions(workspace: Workspace) -> None:
    with pytest.raises(SystemExit) as caught:
        base(workspace, "--check", "--upgrade")
    assert caught.value.code == 2


@pytest.mark.parametrize(("words", "code"), [((), 0), (("cuda",), 4)])
def test_an_upgrade_out_of_reach_stops_only_where_the_base_was_named(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int,
        capsys: pytest.CaptureFixture[str]) -> None:
    def upgrade(*_: object) -> None:
        raise NetworkError("nothing answers")

    monkeypatch.setattr(Engine, "connect", classmethod(lambda _: None))
    monkeypatch.setattr(base_command, "upgrade", upgrade)
    assert base(workspace, *words, "--upgrade") == code
    assert "nothing answers" in capsys.readouterr().err


def upgrade_arm64(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run ``base slim --upgrade --platform linux/arm64`` with the making itself left out."""
    def upgrade(_workspace: object, _engine: object, key: tuple[str, str]) -> ReadyBase:
        made = make_base(key[1], recipe=load_slim_recipe(workspace.root).digest)
        write_bases(lock_file(workspace), {**load_bases(lock_file(workspace)), key: made})
        return ReadyBase(made, "tag", "reference", Origin.MADE)

    monkeypatch.setattr(Engine, "connect", classmethod(lambda _: None))
    monkeypatch.setattr(base_command, "upgrade", upgrade)
    return base(workspace, "slim", "--upgrade", "--platform", "linux/arm64")


def test_a_platform_that_an_upgrade_leaves_stale_is_named(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    lock_slim(workspace)
    (workspace.root / SLIM_RECIPE).write_text(SLIM.replace('"gcc"', '"gcc", "g++"'))
    assert upgrade_arm64(workspace, monkeypatch) == 0
    errors = capsys.readouterr().err
    assert "base slim linux/amd64 is still stale" in errors
    assert "./nox -s base -- slim --upgrade --platform linux/amd64" in errors
    assert "slim linux/arm64 is still stale" not in errors


def test_an_upgrade_that_leaves_nothing_stale_warns_of_nothing(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    lock_slim(workspace)
    assert upgrade_arm64(workspace, monkeypatch) == 0
    assert "stale" not in capsys.readouterr().err
