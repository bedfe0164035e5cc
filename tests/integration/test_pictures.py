"""A broken path of pictures is red by name at level 1a: the same script, in the cpu image.

The server's own is in ``test_smoke_red.py``: processor, resolution and the order of pictures.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.build import build
from builder.engine.client import Engine, RunSpec
from builder.locking.lock import load_for
from builder.smoke.levels import ENVIRONMENT, HERE, script_input
from builder.workspace import open_workspace
from tests.fixtures.broken_checkpoints import TINY, break_checkpoint

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
FAULTS = ("unscaled", "oversized", "blind")
# What the check says: sizes are told by three pictures at once, the others by the first colour.
WORDS = {"unscaled": "expected purple in this order, got", "blind": "expected purple in this order",
         "oversized": "expected red, circle, blue, square, green, triangle in this order, got"}
SEES, ANSWERS = "Gemma 4 sees (transformers)", "Gemma 4 answers (transformers)"
# All models in one process: the imports take most of the time.
SCRIPT = """
import json, sys
sys.path.insert(0, "/inside")
import answer
task = json.load(open("/models/task.json"))
for name in json.loads(sys.argv[1]):
    print("## " + name)
    answer.spec = lambda: {**task, "imports": [], "model": "/models/" + name}
    answer.main()
"""


def test_a_broken_path_of_pictures_is_red_and_the_words_stay_green(tmp_path: Path) -> None:
    workspace, engine = open_workspace(ROOT / "matrix.toml"), Engine.connect()
    cell = next(cell for cell in workspace.cells if cell.id == "cpu")
    image = build(workspace, cell, engine).plan.name
    folders = [(TINY, "/models/good")]
    folders += [(break_checkpoint(fault, tmp_path / fault), f"/models/{fault}")
                for fault in FAULTS]
    task = script_input(cell, load_for(cell, workspace.locks), sees=True)
    (tmp_path / "task.json").write_text(json.dumps(task))
    done = engine.run_once(RunSpec(
        image, ("python", "-c", SCRIPT, json.dumps(["good", *FAULTS])), env=ENVIRONMENT,
        network="none", mounts=((HERE / "inside", "/inside"), *folders,
                                (tmp_path / "task.json", "/models/task.json"))))
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("## "):
            found[line.removeprefix("## ")] = {}
        if line.startswith("@@ "):
            row = json.loads(line.removeprefix("@@ "))
            found[list(found)[-1]][row["check"]] = (row["status"], row["detail"])
    assert list(found) == ["good", *FAULTS]
    for name, checks in found.items():
        assert checks[ANSWERS][0] == "pass", (name, checks)
        assert checks[SEES][0] == ("pass" if name == "good" else "fail"), (name, checks)
        assert name == "good" or WORDS[name] in checks[SEES][1], (name, checks)
