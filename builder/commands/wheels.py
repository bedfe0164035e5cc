"""Compile what nobody publishes for the GPU: only the modules that a patch or the gate names.

"plan" says what would be compiled and why, "build" compiles it and locks the wheel, "status" shows
what was compiled on this machine, "index" writes a package index that pip and uv read.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from builder import console
from builder.bases.state import read_bases
from builder.commands.option_types import user_path, whole_number
from builder.commands.wheels_build import build_cells
from builder.compile.compiler import ContainerCompiler
from builder.engine.client import Engine
from builder.errors import SparkyardError, UsageError, command
from builder.locking.lock import load_for, load_published, lock_path
from builder.matrix.cells import Cell, select
from builder.patches.load import asking
from builder.store.content_store import Store
from builder.wheels.estimate import this_machine
from builder.wheels.index import check_folder, write_index
from builder.wheels.kept import everything
from builder.wheels.plan import PackagePlan, plan_cell
from builder.wheels.policy import checked_recipes
from builder.wheels.stage import fetch_compiled
from builder.workspace import Workspace, open_workspace

MOST_JOBS = 1024
ACTIONS = {"plan": "show what would be compiled, why, and about how long it takes here",
           "build": "compile what the cells need, judge it and lock it",
           "status": "show what was compiled on this machine",
           "index": "write a package index of the compiled wheels that are locked"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("wheels", help="compile what nobody publishes for the GPU",
                                   description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    plan, build, status, index = (
        actions.add_parser(name, help=text, description=f"{text.capitalize()}.")
        for name, text in ACTIONS.items())
    index.add_argument("--output", type=user_path, required=True, metavar="DIR",
                       help="a new or empty folder, or an earlier index, which grows")
    build.add_argument("cells", nargs="+", metavar="CELL", help="cell ids, globs allowed")
    build.add_argument("--jobs", type=whole_number(1, MOST_JOBS), metavar="N",
                       help="compile jobs at once (default: as many as the cores and the memory "
                       "allow)")
    build.add_argument("--again", action="store_true",
                       help="compile what is there once more, and compare it byte for byte")
    build.set_defaults(execute=_build)
    for action, does in ((plan, _plan), (index, _index)):
        action.add_argument("cells", nargs="*", metavar="CELL",
                            help="cell ids, globs allowed (default: every locked cell)")
        action.set_defaults(execute=does)
    status.set_defaults(execute=_status)
    for action in (plan, status):
        action.add_argument("--json", action="store_true",
                            help="print one JSON document on standard output")


def _plan(options: argparse.Namespace) -> int:
    """Show the plan; the exit code of the worst cell that could not be planned."""
    workspace = open_workspace(options.matrix, make_cache=False)
    cells = chosen(workspace, options.cells)
    recipes, bases = checked_recipes(workspace, cells), read_bases(workspace)
    machine, ask = this_machine(), asking(workspace)
    plans: list[PackagePlan] = []
    code = 0
    for cell in cells:
        try:
            lock = load_published(cell, workspace.locks)
            plans += plan_cell(workspace, cell, lock, bases, recipes, machine, ask)
        except SparkyardError as error:
            console.show_error(error)
            code = max(code, error.exit_code)
    if options.json:
        console.document({"schema": 1, "packages": [plan.model_dump(mode="json")
                                                    for plan in plans]})
    elif plans:
        console.table("", ("cell", "package", "version", "wheel", "targets", "here", "locked",
                           "why"), [_row(plan) for plan in plans])
        console.info(f"times are estimates for this machine: {machine.cores} cores, "
                     f"{console.size(machine.memory)} of memory")
    elif not code:
        console.info("every package is taken as it is published; a cell says otherwise with "
                     '`wheels` in matrix.toml, for example wheels = { vllm = "auto" }')
    return code


def chosen(workspace: Workspace, patterns: Sequence[str]) -> list[Cell]:
    """Return the cells asked for; where none is named, those that have a lock."""
    return [cell for cell in select(workspace.cells, patterns)
            if patterns or (lock_path(workspace.locks, cell).exists() and not cell.blocked)]


def _build(options: argparse.Namespace) -> int:
    """Compile and lock; nothing is done where the locks have it all."""
    workspace = open_workspace(options.matrix)
    cells = select(workspace.cells, options.cells)
    compiler = ContainerCompiler(workspace, Engine.connect(), Store(workspace.cache))
    return build_cells(workspace, cells, compiler, options.jobs, again=options.again)


def _row(plan: PackagePlan) -> tuple[object, ...]:
    time = "" if plan.seconds is None else f"about {console.seconds(plan.seconds)}"
    lacks = "" if plan.fits else ", one job needs more memory"
    return (plan.cell, plan.package, plan.version, plan.take, ", ".join(plan.targets),
            time + lacks, plan.locked, plan.why)


def _status(options: argparse.Namespace) -> int:
    """Show what lies in the cache, and which cells have locked it."""
    workspace = open_workspace(options.matrix, make_cache=False)
    users: dict[str, list[str]] = {}
    for cell in chosen(workspace, ()):
        try:
            entries = load_for(cell, workspace.locks).compiled
        except SparkyardError as error:
            console.warn(f"{cell.id}: {error.what}")
            continue
        for entry in entries:
            users.setdefault(entry.key, []).append(cell.id)
    known = everything(workspace.cache)
    if options.json:
        console.document({"schema": 1, "compiled": [
            {**rebuilt.model_dump(mode="json"), "cells": users.get(rebuilt.key, [])}
            for rebuilt in known]})
        return 0
    console.table("", ("key", "files", "size", "how", "time", "peak memory", "objects", "cached",
                       "cells"), [(
        rebuilt.key[:12], ", ".join(file.path for file in rebuilt.files),
        console.size(sum(file.size for file in rebuilt.files)), rebuilt.provenance.mode,
        console.seconds(rebuilt.provenance.seconds), console.size(rebuilt.provenance.peak_memory),
        rebuilt.provenance.objects, share(rebuilt.provenance.hit_rate),
        ", ".join(users.get(rebuilt.key, []))) for rebuilt in known])
    return 0


def share(rate: float | None) -> str:
    """Return a rate for people."""
    return "-" if rate is None else f"{rate:.0%}"


def _index(options: argparse.Namespace) -> int:
    """Add the compiled wheels of the cells' locks to an index."""
    workspace = open_workspace(options.matrix)
    check_folder(options.output, workspace.cache)
    store, paths = Store(workspace.cache), dict[str, Path]()
    for cell in chosen(workspace, options.cells):
        lock = load_for(cell, workspace.locks)
        paths |= {wheel.file: path for wheel, path in
                  fetch_compiled(workspace.registry, cell, lock, store).items()}
    if not paths:
        raise UsageError("no lock of these cells has a compiled wheel", where="command line",
                         next_step="compile them with " + command("wheels", "build", "CELL"))
    projects = write_index(options.output, [paths[file] for file in sorted(paths)])
    console.table("", ("project", "version", "file", "size", "sha256"), [
        (name, entry.version, entry.file, console.size(entry.size), entry.sha256[:16])
        for name, entries in projects.items() for entry in entries])
    console.info(f"serve {options.output} with any web server, and install with "
                 "`pip install --index-url URL/simple/ --require-hashes -r FILE`")
    return 0
