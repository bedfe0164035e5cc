"""A second cell that shares layers: `python -m benchmarks.second_cell [ONE OTHER]`.

``cpu-arm64`` and ``cpu-arm64-tf4`` are built on an engine that has seen neither, then the first
again without its image. Printed are the bytes sent to the engine, the bytes in which the two
differ, the time, and the disk that the engine takes at its peak.
"""

from __future__ import annotations

import argparse
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.engines import private_engine
from builder.build import Built, build
from builder.matrix.cells import select
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[1]
INTERVAL_S = 1.0


class Peak:
    """The most bytes that a folder was seen to take."""

    def __init__(self) -> None:
        """Start at nothing."""
        self.bytes = 0

    def look(self, folder: Path) -> None:
        """Measure once; files may vanish meanwhile, which ``du`` only reports."""
        done = subprocess.run(["du", "-sxB1", folder], capture_output=True, text=True, check=False)
        self.bytes = max(self.bytes, int(done.stdout.split()[0]))


@contextmanager
def watched(folder: Path) -> Iterator[Peak]:
    """Measure ``folder`` again and again for the length of the block."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(INTERVAL_S):
            peak.look(folder)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def say(what: str, built: Built) -> None:
    """Print what one build sent, and how long the engine took."""
    print(f"{what} ({built.cell.id}): {built.sent / 1e6:.1f} MB sent, "
          f"{built.seconds['build']:.1f} s", flush=True)


def main() -> None:
    """Print bytes, seconds and the peak of the disk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", nargs="?", default="cpu-arm64",
                        help="the cell that is sent first (default: %(default)s)")
    parser.add_argument("second", nargs="?", default="cpu-arm64-tf4",
                        help="the cell that follows (default: %(default)s)")
    options = parser.parse_args()
    workspace = open_workspace(ROOT / "matrix.toml")
    one, other = (select(workspace.cells, [name])[0]
                  for name in (options.first, options.second))
    with private_engine() as (engine, _):
        base = engine.info.data_root
        with watched(base) as peak:
            first = build(workspace, one, engine)
        say("the first cell", first)
        print(f"peak disk of that build: {peak.bytes / first.image.size:.2f} x the unpacked image "
              f"of {first.image.size / 1e9:.2f} GB (bar: 3)")
        second = build(workspace, other, engine)
        say("the second cell", second)
        had = {layer.digest for layer in first.layers}
        differ = sum(layer.size for layer in second.layers if layer.digest not in had)
        print(f"in which the two differ: {differ / 1e6:.1f} MB; sent / differing: "
              f"{second.sent / differ:.2f} (bar: only what differs)")
        engine.remove(first.plan.name)
        engine.remove(first.plan.tag)
        say("the first cell again", build(workspace, one, engine))


if __name__ == "__main__":
    main()
