"""``smoke``'s own choices: the level that a host can show, the model, what is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder import labels as label
from builder.cli import run
from builder.commands.smoke import default_level, local_image, served_folder
from builder.engine.client import Engine, ImageFacts
from builder.engine.errors import explain
from builder.errors import EngineError, LockError, UsageError, command
from builder.locking.lock import read_lock
from builder.recipes.load import load_recipe
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[3]
MATRIX = ["--matrix", str(ROOT / "matrix.toml")]
CPU = read_lock(ROOT / "locks" / "cpu.toml")


@pytest.mark.parametrize(("cell", "host", "level"), [
    ("cpu", "linux/amd64", "2"), ("cpu", "linux/arm64", "1b"), ("cpu-arm64", "linux/arm64", "2"),
    ("tf5", "linux/arm64", "1a"), ("tf5", "linux/amd64", "1a")])
def test_the_highest_level_that_a_host_can_show(cell: str, host: str, level: str) -> None:
    cells = {cell.id: cell for cell in open_workspace(ROOT / "matrix.toml").cells}
    assert default_level(cells[cell], host) == level


@pytest.mark.parametrize("option", ["--json", "--junit"])
def test_a_file_that_cannot_be_written_is_refused_before_the_run(
        option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "below.json", Path("/"), Path("/proc/x/y.json")):
        assert run([*MATRIX, "smoke", "cpu", option, str(path)]) == 2
        assert "cannot write there" in capsys.readouterr().err


def test_an_engine_without_a_gpu_is_told_as_such() -> None:
    said = ('Error response from daemon: could not select device driver "" with capabilities: '
            "[[gpu]]\nError: failed to start containers: 3ad31e\n")
    error = explain(said, "starting r/tf5:tf5")
    assert isinstance(error, EngineError)
    assert error.what.splitlines()[0] == "starting r/tf5:tf5: the Docker engine offers no GPU"
    assert "--level 1a" in error.next_step


def test_a_cuda_cell_does_not_run_in_process_without_a_gpu(
        capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*MATRIX, "smoke", "tf5", "--level", "1b"]) == 2
    assert "level 1b runs vLLM on a CPU" in capsys.readouterr().err


@pytest.mark.parametrize("words", [
    ["smoke", "cpu", "--image"], ["smoke", "cpu", "--pull", "--image"], ["bench", "cpu", "--image"],
    ["push", "cpu", "--since"]])
@pytest.mark.parametrize("name", ["a@sha256:abc", "team/UPPER:x", "a b"])
def test_what_no_image_can_be_called_is_refused_before_the_engine_is_asked(
        words: list[str], name: str, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/none")
    assert run([*MATRIX, *words, name]) == 2
    shown = capsys.readouterr().err
    assert f'"{name}" is not a valid name of an image' in shown
    assert words[-1] in shown


def test_a_pull_needs_the_name_of_an_image(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*MATRIX, "smoke", "cpu", "--pull"]) == 2
    assert "--image REF" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "said"), [
    (["tf5", "--nodes", "2"], "needs a GPU for each"),
    (["cpu", "--nodes", "2", "--level", "1a"], "level 1a has no server")])
def test_two_nodes_that_cannot_serve_here_are_refused(
        words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*MATRIX, "smoke", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("words", "said"), [
    (["--soak", "1"], "name 2 minutes or more"),
    (["--soak", "5", "--level", "1b"], "level 1b has none"),
    (["--soak", "5", "--nodes", "2"], "a soak is for one server")])
def test_a_soak_that_cannot_be_is_refused(
        words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*MATRIX, "smoke", "cpu", *words]) == 2
    assert said in capsys.readouterr().err


class OneImage(Engine):
    """An engine that has one image, or none."""

    def __init__(self, labels: dict[str, str] | None) -> None:
        self.image = labels and ImageFacts(
            id="sha256:1", diff_ids=(), labels=labels, repo_tags=(), repo_digests=(), size=0,
            platform="linux/amd64", created="", env={})

    def inspect(self, reference: str) -> ImageFacts | None:
        return self.image or None


def test_an_image_of_another_lock_proves_nothing_of_this_one() -> None:
    lock = CPU
    own, other = {label.LOCK: lock.digest}, {label.LOCK: "sha256:0"}
    assert local_image(OneImage(own), "r/cpu:cpu", lock, foreign=False).labels == own
    with pytest.raises(LockError, match="not built from the current lock") as told:
        local_image(OneImage(other), "r/cpu:cpu", lock, foreign=False)
    assert command("build", lock.cell) in told.value.next_step
    assert local_image(OneImage(other), "r/cpu:cpu", lock, foreign=True).labels == other


def test_a_foreign_image_that_is_not_there_is_not_to_be_built() -> None:
    with pytest.raises(EngineError) as told:
        local_image(OneImage(None), "r/x:y", CPU, foreign=True)
    assert "build" not in told.value.next_step


def test_a_recipe_whose_model_folder_is_gone_is_refused_before_anything_starts() -> None:
    recipe = load_recipe(ROOT, "tiny-gemma4")
    gone = recipe.model_copy(update={"model": recipe.model.model_copy(update={"path": "no/such"})})
    with pytest.raises(UsageError, match="no such folder"):
        served_folder(open_workspace(ROOT / "matrix.toml"), gone)
