"""Time and memory of single compiles: ``python -m benchmarks.compile_objects TARGET``.

Compiles real objects of a target of ``wheels/PACKAGE.toml`` in the locked toolchain, by the same
steps as ``./nox -s wheels -- build``, and links nothing. Which ones: ``--sources``, or a sample of
``--objects`` sources that is random and the same each time. Nothing is taken from ccache.

The table has a row an object. Below it stands what the whole target would take with ``--cores``:
an estimate. A source that was not compiled counts as the mean of those that were; one that
instantiates kernels by name (Marlin) counts by its number of kernels, on the line through those
that were compiled. ``--results FILE`` keeps what was measured, so that a later run compiles the
next ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from builder.bases.state import read_bases
from builder.binaries.gpu_code import read_gpu_code
from builder.commands.option_types import user_path, whole_number
from builder.compile.compiler import ContainerCompiler
from builder.compile.result import Made
from builder.engine.client import Engine
from builder.locking.lock import load_for
from builder.store.content_store import Store
from builder.wheels.estimate import this_machine
from builder.wheels.order import Order
from builder.wheels.recipe import load_recipes
from builder.wheels.sources import external_archives, fetch_files, source_archive
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[1]
GB = 1e9
MOST = 1000
BATCH = 14  # objects in one run of the container, which takes half a minute to configure


@dataclass
class Row:
    """One compiled object: its source, kernels instantiated by name, and what it took."""

    source: str
    kernels: int
    cpu_seconds: float
    seconds: float
    peak_memory: int
    code: str


@dataclass
class Results:
    """All sources of a target with their kernels by name, and the objects that were compiled."""

    sources: dict[str, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @property
    def done(self) -> set[str]:
        """Return the sources that were compiled."""
        return {row.source for row in self.rows}


def order_of(options: argparse.Namespace) -> tuple[Order, ContainerCompiler]:
    """Return the order of the target as its cell has it locked, and what compiles it."""
    workspace = open_workspace(ROOT / "matrix.toml")
    cell = next(cell for cell in workspace.cells if cell.id == options.cell)
    store, lock = Store(workspace.cache), load_for(cell, workspace.locks)
    recipe = load_recipes(ROOT)[options.package]
    torch, base = lock.wheel("torch"), read_bases(workspace).get((cell.base_name, cell.platform))
    assert torch
    assert base
    version = options.version or next(iter(recipe.sources))
    archive, external = source_archive(recipe, version), external_archives(recipe)
    paths = fetch_files(cell.id, [archive, torch, *external.values()], store, cell.indexes)
    order = Order(key="0" * 64, cell=cell, recipe=recipe, version=version,
                  targets=(options.target,), source=paths[archive], base=base,
                  torch=(torch, paths[torch]), jobs=options.jobs, fresh=True,
                  external={name: paths[each] for name, each in external.items()})
    return order, ContainerCompiler(workspace, Engine.connect(), store)


def compiled(order: Order, compiler: ContainerCompiler, globs: Sequence[str], folder: Path,
             results: Results) -> None:
    """Compile the objects whose sources fit, and add them to the results."""
    made = compiler.objects(order, globs, folder).result
    results.sources |= {each.source: each.kernels for each in made.sources}
    for one in made.made:
        source = one.object.split(".dir/", 1)[1].removesuffix(".o")
        results.rows.append(_row(one, source, results.sources.get(source, 0), folder))


def _row(one: Made, source: str, kernels: int, folder: Path) -> Row:
    codes = sorted({code.name for code in read_gpu_code(folder / one.object.replace("/", "_"))})
    return Row(source, kernels, one.cpu_seconds, one.seconds, one.peak_memory,
               " ".join(codes) or "none")


def sample(results: Results, count: int, *, short: bool = False) -> list[str]:
    """Return the next sources: in the order of their names' digests, so random, but the same."""
    left = [name for name, kernels in results.sources.items()
            if name not in results.done and not (short and kernels)]
    return sorted(left, key=lambda name: hashlib.sha256(name.encode()).digest())[:count]


def estimated(results: Results) -> dict[str, float]:
    """Return processor seconds of every source of the target, measured or estimated."""
    plain = [row.cpu_seconds for row in results.rows if not row.kernels]
    each = sum(plain) / max(len(plain), 1)
    named = [row for row in results.rows if row.kernels]
    start, kernel = line([(row.kernels, row.cpu_seconds) for row in named]) if named else (each, 0)
    known = {row.source: row.cpu_seconds for row in results.rows}
    return {name: known.get(name, start + kernel * kernels if kernels else each)
            for name, kernels in results.sources.items()}


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return start and slope of the straight line through points, by least squares.

    Through the origin where all points have the same x.
    """
    x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((point[0] - x) ** 2 for point in points)
    if not spread:
        return 0.0, y / x
    slope = sum((one - x) * (two - y) for one, two in points) / spread
    return y - slope * x, slope


def wall(seconds: Sequence[float], jobs: int) -> float:
    """Return when the last of these is done, each given to the first job that is free."""
    free = [0.0] * jobs
    for each in seconds:
        free.sort()
        free[0] += each
    return max(free)


def show(target: str, results: Results, cores: Sequence[int]) -> None:
    """Print the table and the estimates."""
    print(f"{'CPU s':>8} {'wall s':>8} {'GB':>6} {'kernels':>8}  {'GPU code':14} object")
    for row in sorted(results.rows, key=lambda row: -row.cpu_seconds):
        print(f"{row.cpu_seconds:8.1f} {row.seconds:8.1f} {row.peak_memory / GB:6.2f} "
              f"{row.kernels or '-':>8}  {row.code:14} {row.source}")
    total = estimated(results)
    named = [kernels for kernels in results.sources.values() if kernels]
    print(f"{target}: {len(results.rows)} of {len(results.sources)} objects compiled, "
          f"{sum(row.cpu_seconds for row in results.rows):.0f} CPU s; {len(named)} sources "
          f"instantiate {sum(named)} kernels by name")
    peaks = sorted((row.peak_memory for row in results.rows), reverse=True)
    for count in cores:
        memory = sum(peaks[:count]) + peaks[0] * max(0, count - len(peaks))
        print(f"estimate with {count} cores: {wall(list(total.values()), count) / 60:.0f} min "
              f"({sum(total.values()):.0f} CPU s), up to {memory / GB:.0f} GB at once")


def main() -> None:
    """Compile a sample and print what it took."""
    parser = argparse.ArgumentParser(description="Time and memory of single compiles of a target.")
    parser.add_argument("target", metavar="TARGET", help="as in wheels/PACKAGE.toml: _C, _moe_C")
    parser.add_argument("--package", default="vllm", help="whose recipe (default: vllm)")
    parser.add_argument("--version", help="of the sources (default: the recipe's first)")
    parser.add_argument("--cell", default="tf5", help="whose torch and base (default: tf5)")
    parser.add_argument("--sources", nargs="+", metavar="GLOB", help="which sources")
    parser.add_argument("--objects", type=whole_number(1, MOST), default=12, metavar="N",
                        help="how many at random (default: 12)")
    parser.add_argument("--short", action="store_true",
                        help="at random only those that instantiate no kernels by name")
    parser.add_argument("--jobs", type=whole_number(1, MOST), default=1, metavar="N",
                        help="at once (default: 1, so that a time is one compile's own)")
    parser.add_argument("--cores", type=whole_number(1, MOST), nargs="+", default=[2, 20],
                        metavar="N", help="to estimate for (default: 2 20)")
    parser.add_argument("--results", type=user_path, metavar="FILE", help="kept, and added to")
    options = parser.parse_args()
    results, started = _kept(options.results), time.monotonic()
    order, compiler = order_of(options)
    with Store(open_workspace(ROOT / "matrix.toml").cache).temporary("objects") as folder:
        for sources in _batches(options, results):
            compiled(order, compiler, sources, folder, results)
            if options.results:
                options.results.write_text(json.dumps(asdict(results), indent=1) + "\n", "utf-8")
    show(options.target, results, options.cores)
    machine = this_machine()
    print(f"{time.monotonic() - started:.0f} s in all; {machine.cores} cores, "
          f"{machine.memory / GB:.0f} GB, load {os.getloadavg()[0]:.1f}", flush=True)


def _batches(options: argparse.Namespace, results: Results) -> Iterator[list[str]]:
    """Yield what is compiled in each run of the container; a run that fails loses its batch only.

    The first object of all tells which sources there are.
    """
    if options.sources:
        yield options.sources
        return
    left = options.objects
    if not results.sources:
        yield ["torch_bindings.cpp"]
        left -= 1
    while left > 0 and (chosen := sample(results, min(left, BATCH), short=options.short)):
        yield chosen
        left -= len(chosen)


def _kept(path: Path | None) -> Results:
    if path is None or not path.exists():
        return Results()
    text = json.loads(path.read_text("utf-8"))
    return Results(text["sources"], [Row(**row) for row in text["rows"]])


if __name__ == "__main__":
    main()
