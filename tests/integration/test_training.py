"""The whole training of the embedded models really runs, a step of each stage, in the cpu image.

What comes out has every file of the committed checkpoints, and all but the weights byte for byte.
Nothing is learnt in one step: what the committed weights answer, the smoke test asks.
"""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from builder.build import build
from builder.engine.client import Engine, RunSpec
from builder.workspace import open_workspace

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
FORMS = {"dense": "tiny-gemma4", "moe": "tiny-gemma4-moe"}
WEIGHTS = "model.safetensors"
STATES = ("text-dense.pt", "tower.pt", "joint-dense.pt")


def train(folder: Path, *words: str) -> str:
    """Run the training script in the cpu image and return what it printed."""
    workspace, engine = open_workspace(ROOT / "matrix.toml"), Engine.connect()
    cell = next(cell for cell in workspace.cells if cell.id == "cpu")
    image = build(workspace, cell, engine).plan.name
    script = "/source/tests/fixtures/train_tiny_gemma4"
    done = engine.run_once(RunSpec(
        image, ("python", "-u", script, "--work", "/made/work", "--out", "/made", *words),
        network="none", user=f"{os.getuid()}:{os.getgid()}", mounts=((ROOT, "/source"),),
        writable_mounts=((folder, "/made"),)))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shapes(path: Path) -> dict[str, Any]:
    """Return kind and shape of each tensor, as the head of a safetensors file has them."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return {name: (row["dtype"], row["shape"]) for name, row in json.loads(data[8:8 + size]).items()
            if name != "__metadata__"}


def test_one_command_trains_both_from_nothing_and_a_second_start_goes_on(tmp_path: Path) -> None:
    said = train(tmp_path, "--steps", "1")
    for stage in ("text step     0", "tower step     0", "joint step     0"):
        assert stage in said
    assert "a rehearsal of 1 steps: every stage ran, nothing is proved" in said
    assert "0/3 exact" in said
    for name in FORMS.values():
        made, committed = tmp_path / name, FIXTURES / name
        files = {path.name for path in committed.iterdir()} - {"README.md"}
        assert {path.name for path in made.iterdir()} == files
        for file in files - {WEIGHTS, "SHA256SUMS"}:
            assert (made / file).read_bytes() == (committed / file).read_bytes(), file
        assert shapes(made / WEIGHTS) == shapes(committed / WEIGHTS)
        assert (made / WEIGHTS).read_bytes() != (committed / WEIGHTS).read_bytes()
    first = (tmp_path / "tiny-gemma4" / WEIGHTS).read_bytes()
    said = train(tmp_path, "--steps", "1", "--form", "dense")
    for state in STATES:
        assert f"{state}: goes on after step 1 of 1" in said
    assert (tmp_path / "tiny-gemma4" / WEIGHTS).read_bytes() == first
