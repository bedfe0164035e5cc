"""``sparkyard push`` and the push of ``build``: what is shown, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.cli import run
from builder.commands import push
from builder.direct_push import DirectPush
from builder.engine.client import Engine, RemoteLayer
from builder.publish import Pushed
from builder.registry.upload import Blob, Delivered, Outcome
from builder.workspace import open_workspace
from tests.integration.test_build import make_workspace

LAYERS = (RemoteLayer("a", 1_000_000), RemoteLayer("b", 2_000_000))
PUSHED = Pushed("r/cpu:cpu-1.0-abc", "sha256:m", LAYERS, "r/cpu:cpu-next", LAYERS[1:])
ROOT = Path(__file__).parents[3]
LAYER = RemoteLayer("sha256:a", 10)
DONE = DirectPush("r/cpu:t", "sha256:m", "sha256:c", (LAYER,), (
    Delivered(Blob("a", 4_000_000, b""), Outcome.SENT, 3_000_000),
    Delivered(Blob("b", 2_000_000, b""), Outcome.PRESENT),
    Delivered(Blob("c", 1_000_000, b""), Outcome.MOUNTED)), 5.0, 9.0)


class Empty(Engine):
    """An engine without images."""

    def __init__(self) -> None:
        """Ask nothing."""

    def inspect(self, reference: str) -> None:
        return None


def test_a_cell_without_an_image_names_the_command(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    workspace = make_workspace(tmp_path / "work", weights=b"x")
    monkeypatch.setattr(Engine, "connect", lambda *_, **__: Empty())
    assert run(["--matrix", str(workspace.root / "matrix.toml"), "push", "probe"]) == 5
    assert "./nox -s build -- probe" in capsys.readouterr().err


def test_the_table_says_what_an_update_costs(capsys: pytest.CaptureFixture[str]) -> None:
    first = Pushed(PUSHED.reference, PUSHED.digest, LAYERS, "", LAYERS)
    push.show([push.Result("cpu", PUSHED, "r/cpu:cpu-next"), push.Result("cpu", first)])
    rows = capsys.readouterr().out.splitlines()
    assert "2.0 MB in 1 of 2 layers" in rows[2]
    assert rows[2].endswith("pushed")
    assert "3.0 MB in 2 of 2 layers" in rows[3]
    assert "first image" in rows[3]


def test_the_document_has_the_same_facts() -> None:
    assert push.as_json(push.Result("cpu", PUSHED, "r/cpu:cpu-next")) == {
        "cell": "cpu", "reference": PUSHED.reference, "digest": "sha256:m",
        "next": "r/cpu:cpu-next", "size": 3_000_000, "previous": "r/cpu:cpu-next",
        "to_pull": 2_000_000, "new_layers": ["b"]}


def test_the_summary_says_bytes_time_and_what_was_there() -> None:
    assert push.summary(DONE) == (
        "3.0 MB sent in 9.0 s, of which 5.0 s until all layers were compressed; "
        "2.0 MB in 1 blob there already; 1.0 MB in 1 blob mounted from other repositories")


def test_json_has_the_same_figures() -> None:
    value = push.as_json(push.Result("cpu", PUSHED, "", DONE))
    assert (value["sent"], value["seconds"], value["config"]) == (3_000_000, 9.0, "sha256:c")
    assert value["blobs"]["mounted"] == {"count": 1, "size": 1_000_000}
    assert "sent" not in push.as_json(push.Result("cpu", PUSHED))


def test_compression_is_for_direct_pushes_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["push", "cpu", "--compression", "gzip"]) == 2
    assert "add --direct" in capsys.readouterr().err


def test_siblings_are_the_matrix_images() -> None:
    workspace = open_workspace(ROOT / "matrix.toml", make_cache=False)
    assert "sparkyard/tf5" in push.siblings(workspace)


@pytest.mark.parametrize("words", [("push", "cpu"), ("nightly", "cpu")])
def test_a_key_that_is_not_there_is_said_before_anything_is_done(
        words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Engine, "connect", lambda *_, **__: pytest.fail("the engine was asked"))
    assert run([*words, "--sign", "/nowhere/cosign.key"]) == 2
    assert "there is no such key" in capsys.readouterr().err
