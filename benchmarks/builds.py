"""Builds as ratios, side by side in one run: `python -m benchmarks.builds [CELL]` (``cpu``).

The cell's layers are made beforehand; then the same bytes become an image three times, each time
from a context that the engine has not seen and with no cache: by Sparkyard's bake definition, by
a plain Dockerfile that ADDs the same tars, and by `RUN uv pip install` of the same locked wheels.
Each runs twice, and the quicker run counts. All of it happens on an engine of the benchmark's own,
whose build cache is emptied before every run; needs about three times the unpacked image of disk.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.engines import private_engine
from builder.bases.provision import ensure
from builder.build import cell_layers
from builder.engine.client import Engine
from builder.fetch.wheels import fetch_lock
from builder.image import TARGET, ImagePlan, definition, plan_image
from builder.locking.lock import load_for
from builder.matrix.cells import Cell, select
from builder.store.content_store import Store, StoredLayer
from builder.workspace import Workspace, open_workspace

ROOT = Path(__file__).parents[1]
NAME = "sparkyard-benchmark"
TURNS = 2
PIP = """FROM {base}
COPY --from=uv uv /usr/local/bin/uv
RUN --mount=type=bind,target=/wheels python3 -m venv --without-pip /opt/sparkyard && \\
    UV_LINK_MODE=copy uv pip install --offline --no-deps --no-index --compile-bytecode \\
    --python /opt/sparkyard/bin/python /wheels/*.whl
"""


def timed(action: Callable[[], object]) -> float:
    """Return the wall-clock seconds of ``action``."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def fresh(store: Store, name: str, files: dict[str, Path]) -> Path:
    """Make a build context of hard links under a name that the engine has not seen."""
    folder = store.root / NAME / f"{name}-{os.getpid()}"
    folder.mkdir(parents=True)
    for target, source in files.items():
        os.link(source, folder / target)
    return folder


def docker(*words: str) -> None:
    """Run docker quietly, on the engine that ``DOCKER_HOST`` names."""
    subprocess.run(["docker", *words], check=True, capture_output=True)


def ours(engine: Engine, image: ImagePlan, context: Path, layers: Sequence[StoredLayer]) -> float:
    """Time Sparkyard's own definition."""
    plan = definition(image, layers, context, "benchmark")
    plan["target"][TARGET]["tags"] = [f"{NAME}:ours"]
    return timed(lambda: engine.bake(plan, (TARGET,), cache=False))


def plain(base: str, context: Path, platform: str, layers: Sequence[StoredLayer]) -> float:
    """Time a Dockerfile as anybody would write it."""
    adds = "\n".join(f"ADD {layer.digest}.tar /" for layer in layers)
    (context / "Dockerfile").write_text(f"FROM {base}\n{adds}\n")
    return timed(lambda: docker("build", "--no-cache", "--provenance=false", "--platform",
                                platform, "-t", f"{NAME}:plain", str(context)))


def installed(base: str, context: Path, platform: str) -> float:
    """Time an installation in the Dockerfile, from wheels that are all there."""
    program = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(program, Path(folder, "uv"))
        (context / "Dockerfile").write_text(PIP.format(base=base))
        return timed(lambda: docker(
            "build", "--no-cache", "--provenance=false", "--platform", platform, "--network",
            "none", "--build-context", f"uv={folder}", "-t", f"{NAME}:uv", str(context)))


def prepared(workspace: Workspace, engine: Engine, cell: Cell
             ) -> tuple[ImagePlan, tuple[StoredLayer, ...]]:
    """Return the cell's plan and its layers, made where the store lacks some."""
    store, lock = Store(workspace.cache), load_for(cell, workspace.locks)
    base = ensure(workspace, engine, (cell.base_name, cell.platform))
    wheels = fetch_lock(lock, store, cell.indexes).paths
    plan = plan_image(cell, lock, base.locked, base.reference, workspace.registry, workspace.root)
    return plan, cell_layers(workspace, cell, lock, base, store, wheels, engine)


def once(store: Store, name: str, files: dict[str, Path],
         action: Callable[[Path], float]) -> float:
    """Time one run that starts from an empty build cache, and remove what it made."""
    docker("builder", "prune", "--force")
    folder = fresh(store, name, files)
    try:
        return action(folder)
    finally:
        docker("rmi", "--force", f"{NAME}:ours", f"{NAME}:plain", f"{NAME}:uv")
        shutil.rmtree(folder)


def compare(workspace: Workspace, engine: Engine, cell: Cell) -> None:
    """Print each ratio beside its bar; ``DOCKER_HOST`` names the engine."""
    store, lock = Store(workspace.cache), load_for(cell, workspace.locks)
    plan, layers = prepared(workspace, engine, cell)
    tars = {layer.path.name: layer.path for layer in layers}
    wheels = {wheel.file: store.wheel_path(wheel) for wheel in lock.wheels}
    runs = {
        "bake": (tars, lambda folder: ours(engine, plan, folder, layers)),
        "add": (tars, lambda folder: plain(plan.base, folder, cell.platform, layers)),
        "uv": (wheels, lambda folder: installed(plan.base, folder, cell.platform))}
    best = {name: min(once(store, name, *run) for _ in range(TURNS)) for name, run in runs.items()}
    print(f"build {cell.id} from warm layers: {best['bake']:.1f} s; plain ADD of the same bytes: "
          f"{best['add']:.1f} s; ratio {best['bake'] / best['add']:.2f} (bar: 1.1)")
    print(f"RUN uv pip install of the same lock: {best['uv']:.1f} s; "
          f"ratio {best['bake'] / best['uv']:.2f} (bar: 1)", flush=True)


def main() -> None:
    """Compare on an engine of our own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cell", nargs="?", default="cpu",
                        help="what to build (default: %(default)s)")
    name = parser.parse_args().cell
    workspace = open_workspace(ROOT / "matrix.toml")
    cell, = select(workspace.cells, [name])
    with private_engine() as (engine, host):
        os.environ["DOCKER_HOST"] = host
        compare(workspace, engine, cell)


if __name__ == "__main__":
    main()
