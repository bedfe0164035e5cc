"""The same image from two machines: ``python -m benchmarks.two_machines [CELL]``.

CELL (default ``cpu``, built before) is built once more by a Docker engine of the benchmark's own,
from a store that has the fetched files and nothing made of them. Both are pushed with ``--direct``
to registries of their own. Printed are both manifest digests, and what the engines call the image.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.engines import private_engine
from benchmarks.push import ROOT, direct, linked_cache, names_at, registry, registry_program
from builder.workspace import cache_folder

FETCHED = ("wheels", "debs", "patches", "compiled", "stamps")


def second_store(cache: Path, own: Path) -> None:
    """Make a cache that has what was fetched from elsewhere, and nothing that was made of it."""
    own.mkdir()
    (own / ".sparkyard-cache").touch()
    for name in FETCHED:
        if (cache / name).is_dir():
            shutil.copytree(cache / name, own / name, copy_function=os.symlink,
                            ignore=shutil.ignore_patterns("*+lean*"))


def sparkyard(host: str, engine: str, cache: Path, *words: str) -> str:
    """Run a command against an engine, a store and a registry; return its output."""
    return subprocess.run(
        [sys.executable, "-m", "builder", *words], cwd=ROOT, check=True, text=True,
        stdout=subprocess.PIPE, env={**os.environ, "DOCKER_HOST": engine,
                                     "SPARKYARD_CACHE": str(cache),
                                     "SPARKYARD_REGISTRY": f"{host}/sparkyard"}).stdout


def elsewhere(cell: str, cache: Path, folder: Path, program: str) -> dict[str, Any]:
    """Build and push the cell with another engine and another store; return the push's figures."""
    own = folder / "second"
    second_store(cache, own)
    with private_engine() as (_, engine), registry(folder, program) as there:
        sparkyard(there.host, engine, own, "build", cell)
        said = sparkyard(there.host, engine, own, "push", cell, "--direct", "--json")
        return {**json.loads(said)[0], "made": len([*(own / "layers").glob("*.tar")])}


def here(cell: str, cache: Path, folder: Path, program: str) -> dict[str, Any]:
    """Push the cell that the machine's engine has; return the push's figures."""
    own = folder / "first"
    linked_cache(cache, own)
    with registry(folder, program) as there, names_at(there.host, cell):
        return direct(there.host, cell, own)


def main() -> None:
    """Print both digests."""
    parser = argparse.ArgumentParser(description="The same image from two machines.")
    parser.add_argument("cell", nargs="?", default="cpu", metavar="CELL")
    parser.add_argument("--registry", default=registry_program(), metavar="PROGRAM")
    options = parser.parse_args()
    cache = cache_folder()
    with tempfile.TemporaryDirectory(dir=cache.parent) as name:
        folder = Path(name)
        one = here(options.cell, cache, folder, options.registry)
        shutil.rmtree(folder / "first")
        two = elsewhere(options.cell, cache, folder, options.registry)
    print(f"{options.cell}, this engine and store:         {one['digest']}")
    print(f"{options.cell}, another engine, {two['made']} layers made: {two['digest']}")
    print("the same manifest" if one["digest"] == two["digest"] else "DIFFERENT manifests",
          flush=True)


if __name__ == "__main__":
    main()
