"""What the gate says of a base without libnuma, and what the loader says in the same image."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.build import build
from builder.cells import select
from builder.engine import Engine, RunSpec
from builder.workspace import open_workspace

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SITE = "/opt/sparkyard/lib/python3.11/site-packages"
LOAD = f"""python -c 'import ctypes, torch; ctypes.CDLL("{SITE}/vllm/_C.abi3.so", 2)'"""


def test_the_loader_agrees_about_libnuma() -> None:
    engine, workspace = Engine.connect(), open_workspace(ROOT / "matrix.toml")
    image = build(workspace, select(workspace.cells, ["cpu"])[0], engine).plan.name
    whole, bare = (engine.run_once(RunSpec(image, ("sh", "-c", before + LOAD), network="none"))
                   for before in ("", "rm /usr/lib/*/libnuma.so.1* && "))
    assert whole.returncode == 0, whole.stderr
    assert bare.returncode != 0
    assert "libnuma.so.1: cannot open shared object file" in bare.stderr
