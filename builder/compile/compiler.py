"""Compile an order in a container build: what ``builder.wheels`` asks for (``Compiler``)."""

from __future__ import annotations

import hashlib
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import console
from builder.bases.provision import debian_sources, ensure
from builder.bases.state import load_slim_recipe
from builder.compile import bake, packages
from builder.compile.failures import MEMORY, first_error
from builder.compile.progress import Progress
from builder.compile.result import FILES, LOG, Result, read_lines, read_result
from builder.compile.scripts import without_comments
from builder.compile.shared_cache import VARIABLE, remote
from builder.compile.toolchain import FORMAT, Material, layers
from builder.compile.unpacking import Piece
from builder.debian.fetch import fetch_debs
from builder.engine.client import Engine
from builder.errors import LockError, UsageError, VerdictError, command
from builder.fetch.wheels import fetch_lock
from builder.files import sha256_file
from builder.gate.compiled import CompiledFile, check_compiled
from builder.locking.base_lock import Key, LockedBase, load_bases
from builder.locking.lock import Lock, LockedWheel
from builder.matrix.cells import Cell
from builder.store.content_store import Store
from builder.wheels.estimate import costs
from builder.wheels.order import Order, Provenance, Rebuilt, RebuiltFile
from builder.wheels.recipe import Recipe
from builder.workspace import Workspace

INSIDE = Path(__file__).with_name("inside")
CROSS_FROM, CROSS_TO = "linux/amd64", "linux/arm64"


@dataclass(frozen=True)
class Objects:
    """Some objects of a target, compiled for themselves: the result, and where they lie."""

    result: Result
    folder: Path


class ContainerCompiler:
    """Compiles in a container of the locked base, natively or for aarch64 on x86-64."""

    def __init__(self, workspace: Workspace, engine: Engine, store: Store) -> None:
        """Bind to a checkout, an engine and a store; nothing is asked yet."""
        self._workspace, self._engine, self._store = workspace, engine, store

    def fingerprint(self, recipe: Recipe, cell: Cell) -> str:  # noqa: ARG002 - the protocol
        """Return the digest of our own part of a compile: scripts, Dockerfile, form of layers.

        Comments are no part of it. The recipe's requirements and the base are in the key beside it.
        """
        parts = [without_comments(path.read_text("utf-8")) for path in sorted(INSIDE.glob("*.py"))]
        parts.append(bake.instructions(self._workspace.root))
        return hashlib.sha256("\0".join([*parts, str(FORMAT)]).encode()).hexdigest()

    def compile(self, order: Order, output: Path) -> Rebuilt:
        """Compile an order into ``output``; see ``builder.wheels.order.Compiler``."""
        with self._built(order, ()) as (result, folder, tools):
            files = tuple(self._take(order, folder / FILES, output))
        refuse_wrong(order, files, output)
        jobs = result.attempts[-1].jobs if result.attempts else 1
        return Rebuilt(key=order.key, files=files, provenance=Provenance(
            mode="cross" if self._crosses(order.cell) else "native", machine=result.machine,
            compilers=result.compilers, tools=tools, seconds=result.seconds,
            cpu_seconds=round(result.cpu_seconds, 1), peak_memory=result.peak_memory, jobs=jobs,
            objects=len(result.made), cache_hits=result.cache_hits,
            cache_misses=result.cache_misses))

    def objects(self, order: Order, sources: Sequence[str], output: Path) -> Objects:
        """Compile only the objects whose source fits a glob, and link nothing."""
        with self._built(order, tuple(sources)) as (result, folder, _):
            if (folder / "objects").is_dir():
                shutil.copytree(folder / "objects", output, dirs_exist_ok=True)
        return Objects(result, output)

    @contextmanager
    def _built(self, order: Order, only: tuple[str, ...]) -> Iterator[tuple[Result, Path, str]]:
        """Run the build; give its result, its folder and the digest of the tools."""
        shared = remote()
        material = self._material(order)
        base = ensure(self._workspace, self._engine, (order.cell.base_name, self._host))
        text = bake.dockerfile(self._workspace.root, base.reference,
                               layers(material, self._store), shared=shared)
        with self._store.temporary("compile") as work:
            inputs, results = work / "order", work / "result"
            inputs.mkdir(parents=True)
            results.mkdir()
            self._write(order, only, inputs)
            with console.progress(f"compiling {order.title}", unit="files") as meter:
                longest = max((each.longest_seconds for each in costs(order.recipe, order.targets)),
                              default=0)
                progress = Progress(meter, asked=order.jobs is not None, longest=longest)
                self._engine.bake(
                    bake.definition(text, self._store, inputs, results, self._host,
                                    uuid.uuid4().hex, shared=shared),
                    (bake.TARGET,), on_line=progress.line, load=False)
            result = read_result(results)
            if result.shared_errors:
                console.warn(f"the shared cache in {VARIABLE} failed {result.shared_errors} times: "
                             "check its address and that a container can reach it")
            if result.status != "complete":
                raise self._failure(order, result, results / LOG)
            yield result, results, material.digest

    @property
    def _host(self) -> str:
        machine = self._engine.info.platform
        return machine if machine.startswith("linux/") else f"linux/{machine}"

    def _crosses(self, cell: Cell) -> bool:
        if cell.platform == self._host:
            return False
        if (self._host, cell.platform) == (CROSS_FROM, CROSS_TO):
            return True
        raise UsageError(f"{cell.id} is for {cell.platform}, which {self._host} cannot compile for",
                         where=f"images.{cell.image}.platform",
                         next_step="build it on a machine of that platform")

    def _material(self, order: Order) -> Material:
        """Fetch what the toolchain is made of: the recipe's wheels, torch, Debian's packages."""
        cell, wanted = order.cell, order.recipe.toolchain
        crosses = self._crosses(cell)
        here = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}[self._host]
        chosen = [need for need in wanted.requirements
                  if need.fits(here if need.role == "tool" else cell.machine)]
        wheels = [LockedWheel.model_validate(need.model_dump(exclude={"role"})) for need in chosen]
        lock = Lock(cell=f"the toolchain of {order.recipe.name}", intent="", python="",
                    platform="", wheels=tuple(wheels))
        paths = fetch_lock(lock, self._store, cell.indexes).paths
        pieces = [(wheel.sha256, Piece(paths[wheel], need.role))
                  for wheel, need in zip(wheels, chosen, strict=True)]
        if order.torch:
            pieces.append((order.torch[0].sha256, Piece(order.torch[1], "torch")))
        asked = wanted.cross if crosses else wanted.native
        bases = load_bases(self._workspace.root / "locks" / "bases.toml")
        host = self._locked_base(bases, cell)
        recipe = load_slim_recipe(self._workspace.root)
        debs = list(packages.locked(self._workspace.root / "locks" / packages.FILE, host, recipe,
                                    asked))
        if crosses:
            debs.append(packages.headers(order.base))
        files = fetch_debs(debs, debian_sources(self._workspace, host, recipe),
                           self._store.root).paths
        return Material(tuple(pieces), tuple(zip(debs, files, strict=True)))

    def _locked_base(self, bases: Mapping[Key, LockedBase], cell: Cell) -> LockedBase:
        found = bases.get((cell.base_name, self._host))
        if found is None:
            raise LockError(f"the base {cell.base_name} has no lock for {self._host}, which "
                            "compiles", where="locks/bases.toml", next_step=command(
                                "base", cell.base_name, "--upgrade"))
        return found

    def _write(self, order: Order, only: tuple[str, ...], folder: Path) -> None:
        """Lay down what goes into the container: scripts, archives, patched files, the order."""
        shutil.copytree(INSIDE, folder / "inside", ignore=shutil.ignore_patterns("__pycache__"))
        externals: dict[str, Any] = {}
        for name, external in order.recipe.external.items():
            archive = f"external-{name}.tar.gz"
            shutil.copyfile(order.external[name], folder / archive)
            externals[name] = {"archive": archive, "path": external.path,
                               "variables": dict(external.variables)}
        shutil.copyfile(order.source, folder / "source.tar.gz")
        changes: dict[str, str] = {}
        (folder / "changes").mkdir()
        for index, (path, blob) in enumerate(sorted(order.changes.items())):
            changes[path] = "" if blob is None else f"changes/{index}"
            if blob is not None:
                (folder / changes[path]).write_bytes(blob.data)
        build, targets = order.recipe.build, order.recipe.targets
        memory = max((targets[name].cost.memory_gb for name in order.targets), default=4.0)
        bake.write_order(folder, {
            "package": order.recipe.name, "source": "source.tar.gz", "external": externals,
            "changes": changes, "exclude": list(build.exclude), "undefine": list(build.undefine),
            "definitions": dict(build.definitions), "environment": dict(build.environment),
            "system": build.system, "command": list(build.command), "only": list(only),
            "targets": [order.recipe.cmake_name(name) for name in order.targets],
            "jobs": order.jobs, "memory": int(memory * 1e9), "cache_gb": order.recipe.cache_gb,
            "cross": self._crosses(order.cell), "fresh": order.fresh})

    def _take(self, order: Order, made: Path, output: Path) -> Iterator[RebuiltFile]:
        """Move the recipe's files out of the result; VerdictError where one was not made."""
        if not order.targets:
            found = sorted(made.glob("**/*.whl"))
            if len(found) != 1:
                raise VerdictError(f"the build left {len(found)} wheels instead of one",
                                   where=order.recipe.name, next_step="correct build.command")
            yield _moved(found[0], output / found[0].name, found[0].name, "")
            return
        for name in order.targets:
            for file in order.recipe.targets[name].files:
                if not (made / file).is_file():
                    raise VerdictError(
                        f"the target {name} was compiled and made no {file}",
                        where=f"wheels/{order.recipe.name}.toml: targets.{name}.files",
                        next_step="correct the name there")
                yield _moved(made / file, output / file, file, name)

    def _failure(self, order: Order, result: Result, log: Path) -> VerdictError:
        """Keep the log, and return its first real error with its remedy."""
        now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        kept = self._store.root / "logs" / "wheels" / f"{order.recipe.name}-{now}.log"
        kept.parent.mkdir(parents=True, exist_ok=True)
        lines: list[str] = []
        if log.is_file():
            shutil.copyfile(log, kept)
            lines = read_lines(kept)
        error = first_error(lines)
        title = f"{order.title} could not be compiled"
        if error is None:
            return VerdictError(f"{title}: the step {result.step} failed", where=str(kept),
                                next_step="look at the end of the log")
        what = f"{title}: {error.what}"
        if error.target:
            what += f"\n  while making {error.target}"
        what += f"\n  line {error.line:,} of {len(lines):,}: {error.text}"
        if error.kind == MEMORY and result.attempts:
            jobs = result.attempts[-1].jobs
            what += (f"\n  tried with {', '.join(str(one.jobs) for one in result.attempts)} jobs; "
                     f"{console.size(result.available_memory)} are there, one compile took up to "
                     f"{console.size(result.peak_memory)}" + (
                         "; not even one fits" if jobs == 1 else ""))
        return VerdictError(what, where=str(kept), next_step=error.step)


def refuse_wrong(order: Order, files: Sequence[RebuiltFile], folder: Path) -> None:
    """Raise VerdictError with all that is wrong with the code of compiled files."""
    gpu = order.recipe.gpu
    if gpu is None or not order.targets:
        return
    targets = order.recipe.targets
    found = check_compiled([CompiledFile(
        file.path, folder / file.path, targets[file.target].instructions,
        bool(targets[file.target].architectures)) for file in files], gpu, order.recipe.name)
    if found:
        lines = "".join(f"\n  {finding.code}: {finding.what}" for finding in found)
        raise VerdictError(f"{order.title} was compiled and is refused by the gate:{lines}",
                           where=f"wheels/{order.recipe.name}.toml",
                           next_step=found[0].next_step)


def _moved(source: Path, target: Path, path: str, name: str) -> RebuiltFile:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return RebuiltFile(path=path, sha256=sha256_file(target), size=target.stat().st_size,
                       target=name)
