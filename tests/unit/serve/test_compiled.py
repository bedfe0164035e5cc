"""The compile cache: one folder an image, recipe and flags, and why it is empty."""

from __future__ import annotations

from pathlib import Path

from builder.serve.compiled import CompileCache, compile_cache, label_text
from tests.unit.played_servers import WORKSPACE, recipe

GPU = next(cell for cell in WORKSPACE.cells if cell.id == "tf5")
CPU = next(cell for cell in WORKSPACE.cells if cell.id == "cpu")
A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def gpu(cache: Path, image: str = A, **changes: object) -> CompileCache:
    found = compile_cache(cache, recipe("gemma4-26b-a4b-fp8", **changes), GPU, image)
    assert found
    return found


def test_image_recipe_and_flags_each_have_their_own(tmp_path: Path) -> None:
    first = gpu(tmp_path)
    assert first.why == "nothing was compiled yet"
    first.folder.mkdir(parents=True)
    assert gpu(tmp_path).why, "an empty folder holds nothing"
    (first.folder / "kernel").touch()
    assert gpu(tmp_path).why == ""
    assert gpu(tmp_path, B).why == "what was compiled before is of another image"
    other = gpu(tmp_path, serve=("--max-model-len", "1024"))
    assert other.why == "what was compiled before is of other flags"
    assert len({first.folder, gpu(tmp_path, B).folder, other.folder}) == 3


def test_an_eager_cpu_server_compiles_nothing_and_another_does(tmp_path: Path) -> None:
    assert compile_cache(tmp_path, recipe("tiny-gemma4"), CPU, A) is None
    assert compile_cache(tmp_path, recipe("tiny-gemma4", serve=()), CPU, A)
    assert gpu(tmp_path, serve=("--enforce-eager",)), "a GPU's kernels are compiled all the same"


def test_words_become_a_label() -> None:
    assert label_text(("a", "b c")) == '["a", "b c"]'
