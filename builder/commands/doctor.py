"""``doctor``: is this host fit to serve a model? It reads, judges, and changes nothing."""

from __future__ import annotations

import argparse
from collections import Counter

from builder import console
from builder.bases.state import read_bases
from builder.doctor.facts import facts_of
from builder.doctor.judging import Line, Need, Verdict, judge
from builder.doctor.needs import cache_folders, need_of
from builder.doctor.reading import read_host
from builder.errors import LockError, VerdictError
from builder.plan import plan_cells
from builder.recipes.load import load_recipe
from builder.workspace import Workspace, open_workspace

WORST = (Verdict.UNFIT, Verdict.WARNING, Verdict.UNSEEN, Verdict.OK)


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "doctor", help="check whether this host is fit to serve a model",
        description="Check driver, Docker, memory, clocks, disk and folders of this host, and "
                    "change nothing. Exit code 1 where it is unfit to serve a model.")
    parser.add_argument("--recipe", metavar="R", help="also check what this recipe needs")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print one line a check; exit code 1 where the host is unfit."""
    workspace = open_workspace(options.matrix, make_cache=False)
    recipe = load_recipe(workspace.root, options.recipe) if options.recipe else None
    facts = facts_of(read_host(cache_folders(workspace)))
    need = need_of(workspace, recipe) if recipe else _first_build(workspace, facts.machine)
    lines = judge(facts, need)
    if options.json:
        console.document([line.model_dump(mode="json") for line in lines])
    else:
        show(lines)
    return VerdictError.exit_code if any(line.verdict is Verdict.UNFIT for line in lines) else 0


def _first_build(workspace: Workspace, machine: str) -> Need:
    """Return what a build of the first locked cell for this machine takes of the disk.

    A lock at fault is no fault of the host.
    """
    platform = "linux/arm64" if machine == "aarch64" else "linux/amd64"
    try:
        standings = read_bases(workspace).standings
        for cell in workspace.cells:
            if cell.platform == platform:
                (plan,) = plan_cells([cell], workspace.locks, workspace.cache, standings)
                if plan.disk_bytes:
                    return Need(build=plan.disk_bytes, cell=cell.id)
    except LockError as error:
        console.warn(f"what a build takes of the disk is not known: {error.what}")
    return Need()


def show(lines: tuple[Line, ...]) -> None:
    """Print the table, what to do for each line that needs it, and a count."""
    ordered = sorted(lines, key=lambda line: WORST.index(line.verdict))
    console.table("", ("verdict", "check", "seen"),
                  [(line.verdict.upper(), line.check, line.seen) for line in ordered])
    for line in ordered:
        if line.remedy:
            console.out(f"\n{line.check}: {line.reason}\n  do:     {line.remedy}\n"
                        f"  source: {line.source}")
    counts = Counter(line.verdict for line in lines)
    console.out("\n" + ", ".join(f"{counts[verdict]} {verdict}" for verdict in WORST))
