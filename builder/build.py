"""One cell from its lock to an image on the engine: the stages in the order of the data.

``load -> base -> (nothing to do?) -> fetch -> gate -> patch -> lean -> layers -> bake -> inspect``
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from builder import console
from builder import labels as label
from builder.bases.provision import ReadyBase, ensure
from builder.bases.state import Bases, read_bases
from builder.engine.client import Engine, ImageFacts
from builder.errors import EngineError, VerdictError, command
from builder.fetch.wheels import FetchedWheels
from builder.files import require_space
from builder.gate.run import gate_cell, own_base
from builder.image import TARGET, ImagePlan, definition, plan_image
from builder.layers.assemble import Overlay, make_layers, no_overlay
from builder.layers.bytecode import compiler_in
from builder.layers.contract import nccl_labels
from builder.layers.layer import ImageLayers
from builder.lean.stage import LeanClosure, trim_closure
from builder.locking.lock import Lock, load_for
from builder.locking.version_checks import check_versions
from builder.matrix.cells import Cell
from builder.patches.load import load_series
from builder.patches.stage import Patched, Series, apply_series, series_digest
from builder.report.gate import verdict_line
from builder.report.lean import show_savings
from builder.store.build_contexts import choose, remember
from builder.store.content_store import Store, StoredLayer
from builder.wheels.stage import fetch_cell
from builder.workspace import Workspace


@dataclass(frozen=True)
class Built:
    """The result of a build; without layers where the image was up to date.

    ``seconds`` are those of each stage, ``sent`` the bytes that went to the engine.
    """

    cell: Cell
    plan: ImagePlan
    image: ImageFacts
    layers: tuple[StoredLayer, ...] = ()
    sent: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def up_to_date(self) -> bool:
        """Say whether the image was there already, from the same inputs."""
        return not self.layers


def build(workspace: Workspace, cell: Cell, engine: Engine, series: Series | None = None
          ) -> Built:
    """Build one cell unless its image is there; raises the error of the stage that fails.

    ``series`` are patches by wheel in place of those that are locked.
    """
    clock = _Clock()
    _refuse_blocked(workspace, cell)
    lock = load_for(cell, workspace.locks)
    _refuse_blocked(workspace, cell, lock)
    series = load_series(workspace, cell, lock) if series is None else series
    bases = read_bases(workspace)
    base = ensure(workspace, engine, (cell.base_name, cell.platform), bases=bases)
    plan = plan_image(cell, lock, base.locked, base.reference, workspace.registry, workspace.root,
                      series_digest(series))
    present = engine.inspect(plan.name)
    if present and present.labels.get(label.INPUTS) == plan.inputs:
        return Built(cell, plan, present, seconds=clock.laps)
    _check_versions(cell, lock)
    store = Store(workspace.cache)
    clock.lap("base")
    wheels = fetch_cell(workspace.registry, cell, lock, store)
    clock.lap("fetch")
    _gate_closure(workspace, cell, wheels, base, engine)
    clock.lap("gate")
    patched = apply_series(wheels, series, store, repack=cell.lean)
    _report_patches(patched)
    clock.lap("patch")
    lean = trim(cell, patched.wheels, store)
    plan = replace(plan, labels={**plan.labels, **patched.labels, **lean.labels,
                                 **nccl_labels(lean.wheels)})
    clock.lap("lean")
    layers = cell_layers(workspace, cell, base, store, lean.wheels, engine, patched.overlay,
                         bases)
    _report_patch_sizes(layers)
    clock.lap("layers")
    sent = _bake(engine, plan, tuple(layers), store)
    clock.lap("build")
    image = engine.inspect(plan.name)
    if image is None:
        raise EngineError("the build succeeded, but the engine does not have its image",
                          where=plan.name, next_step="run the same command again; if that does not "
                          "help, check the engine's log")
    return Built(cell, plan, image, tuple(layers), sent, clock.laps)


def _refuse_blocked(workspace: Workspace, cell: Cell, lock: Lock | None = None) -> None:
    """Refuse a cell that is blocked, or whose locked versions are, where an axis is a range."""
    block = cell.blocked or (cell.blocked_with(
        {wheel.name: wheel.version for wheel in lock.wheels}) if lock else None)
    if block:
        raise VerdictError(f"{cell.id} is blocked: {block.reason}", where=workspace.file,
                           next_step=f"read {block.link}, and build another cell")


def _check_versions(cell: Cell, lock: Lock) -> None:
    findings = check_versions(cell, lock)
    if findings:
        raise VerdictError("\n".join(str(finding) for finding in findings), where=cell.id,
                           next_step="correct the matrix entry, then run "
                           + command("lock", cell.id))


def _gate_closure(workspace: Workspace, cell: Cell, wheels: FetchedWheels, base: ReadyBase,
                  engine: Engine) -> None:
    """Stop where the wheels cannot load on the base and GPU; a verdict once reached is kept."""
    source = own_base(workspace, base.locked, engine)
    report = gate_cell(workspace, cell, wheels.lock, source, lambda: wheels)
    console.info(verdict_line(report))
    if report.errors:
        raise VerdictError("\n".join(str(finding) for finding in report.errors), where=cell.id,
                           next_step=f"the whole report: {command('gate', cell.id)}; what a code "
                           f"means: {command('gate', '--explain', 'CODE')}")


def cell_layers(workspace: Workspace, cell: Cell, base: ReadyBase, store: Store,
                wheels: FetchedWheels, engine: Engine, overlay: Overlay = no_overlay,
                bases: Bases | None = None) -> ImageLayers:
    """Make the layers; the bytecode is the base's own Python's."""
    twin = _native_twin(workspace, engine, base, bases or read_bases(workspace))
    requested = {canonicalize_name(Requirement(text).name) for text in cell.requirements}
    python = base.locked.python
    with compiler_in(engine, twin.reference, twin.locked.platform, python) as compiler:
        return make_layers(wheels, python, store, compiler, requested, overlay)


def trim(cell: Cell, wheels: FetchedWheels, store: Store) -> LeanClosure:
    """Return the closure trimmed for the cell's GPU; as it is where the cell is not lean."""
    if not cell.lean or cell.gpu is None:
        return LeanClosure(wheels)
    lean = trim_closure(wheels, cell.gpu, store)
    show_savings(lean.saved)
    return lean


def _report_patches(patched: Patched) -> None:
    for warning in patched.warnings:
        console.warn(warning)
    for name, version in patched.versions.items():
        console.info(f"patched {name} to {version}")


def _report_patch_sizes(layers: ImageLayers) -> None:
    """Print what the patches cost a user who has the published wheels' layers, uncompressed."""
    if layers.overlays:
        size = console.size(sum(layer.size for layer in layers.overlays))
        console.info(f"patches: {size} in layers of their own; environment layer: "
                     f"{console.size(layers.environment.size)}")


def _native_twin(workspace: Workspace, engine: Engine, base: ReadyBase, bases: Bases
                 ) -> ReadyBase:
    """Return a base of the engine's own processor with the same Python, if there is one.

    Bytecode does not depend on the processor, and emulation would take ten times as long.
    """
    platform = engine.info.platform
    twin = bases.get((base.locked.name, platform))
    if platform == base.locked.platform or twin is None or twin.python != base.locked.python:
        return base
    return ensure(workspace, engine, twin.key, bases=bases)


def _bake(engine: Engine, plan: ImagePlan, layers: tuple[StoredLayer, ...], store: Store) -> int:
    total = sum(layer.size for layer in layers)
    info, context = engine.info, choose(store, layers, engine.info.id)
    if info.data_root.exists():  # not where the engine is on another machine
        # The copy of the context, and every new layer twice until the export ends: the peak on
        # an engine of its own was 2.98 x the unpacked image (benchmarks/second_cell.py).
        there = engine.diff_ids()
        unpacked = sum(layer.size for layer in layers if f"sha256:{layer.digest}" not in there)
        require_space(info.data_root, total - context.held_bytes + 2 * unpacked,
                      "for the engine's copy and the unpacked image")
    console.info(f"building {plan.name}: {len(layers)} layers, {console.size(total)}")
    with console.progress("build", float(len(layers)), unit="layers") as meter:
        done = engine.bake(definition(plan, layers, context.path, info.buildkit), (TARGET,),
                           on_line=_counting(meter))
    remember(context, layers)
    return done.sent


def _counting(meter: console.Meter) -> Callable[[str], None]:
    """Advance by one for every ADD that BuildKit reports as done or cached."""
    adds: set[str] = set()

    def on_line(line: str) -> None:
        words = line.split()
        if "ADD --link" in line and words:
            adds.add(words[0])
        elif len(words) > 1 and words[0] in adds and words[1] in ("DONE", "CACHED"):
            adds.discard(words[0])
            meter.advance(1)
    return on_line


class _Clock:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, stage: str) -> None:
        """Close the stage that just ended."""
        now = time.monotonic()
        self.laps[stage], self._last = now - self._last, now
