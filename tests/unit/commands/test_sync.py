"""``sparkyard sync``: what is shown, and what is refused before anything is pushed."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.cli import run
from builder.commands import sync
from builder.engine.client import Engine, RemoteLayer
from builder.peers import Image, Received
from tests.integration.test_build import make_workspace
from tests.unit.commands.test_push import Empty

LAYERS = (RemoteLayer("sha256:a", 7_000_000), RemoteLayer("sha256:b", 1_000_000))
IMAGE = Image("127.0.0.1:5000/r/cpu:t", "sha256:m", "sha256:c", LAYERS, ())
DONE = sync.Synced("cpu", IMAGE, Received("spark2", "sha256:c", LAYERS[1:], 3.0))


def test_the_table_says_what_was_pulled_there(capsys: pytest.CaptureFixture[str]) -> None:
    sync.show([DONE])
    row = capsys.readouterr().out.splitlines()[-1]
    assert "spark2" in row
    assert "1.0 MB in 1 of 2 layers" in row


def test_the_document_has_the_same_facts() -> None:
    assert sync.as_json(DONE) == {
        "cell": "cpu", "host": "spark2", "reference": IMAGE.reference, "digest": "sha256:m",
        "image": "sha256:c", "size": 8_000_000, "layers": 2, "pulled": 1_000_000,
        "pulled_layers": ["sha256:b"], "seconds": 3.0}


@pytest.mark.parametrize(("environment", "host", "told"), [
    ("registry.example/team", "spark2", "others can pull from it"),
    ("127.0.0.1:9/r", "-oProxyCommand=x", "not a name for ssh")])
def test_what_cannot_be_is_refused_first(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        environment: str, host: str, told: str) -> None:
    workspace = make_workspace(tmp_path / "work", weights=b"x")
    monkeypatch.setenv("SPARKYARD_REGISTRY", environment)
    assert run(["--matrix", str(workspace.root / "matrix.toml"), "sync", "probe",
                f"--to={host}"]) == 2
    assert told in capsys.readouterr().err


def test_a_cell_without_an_image_names_the_command(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    workspace = make_workspace(tmp_path / "work", weights=b"x")
    monkeypatch.setattr(Engine, "connect", lambda *_, **__: Empty())
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(sync, "reach", lambda *words: asked.append(words))
    assert run(["--matrix", str(workspace.root / "matrix.toml"), "sync", "probe", "--to",
                "spark2"]) == 5
    assert "./nox -s build -- probe" in capsys.readouterr().err
    assert asked == [("spark2", workspace.registry)], "asked for before anything is pushed"
