"""``doctor``: is this host fit to serve a model? It reads, judges, and changes nothing."""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from pathlib import Path

from builder import console
from builder.doctor.facts import facts_of
from builder.doctor.judging import Line, Need, Verdict, judge
from builder.doctor.reading import read_host
from builder.errors import VerdictError
from builder.recipes.load import load_recipe
from builder.recipes.models import Recipe
from builder.workspace import Workspace, open_workspace

WORST = (Verdict.UNFIT, Verdict.WARNING, Verdict.UNSEEN, Verdict.OK)
BYTES_A_BILLION = 2_000_000_000  # BF16 is what most repositories hold
IMAGE_BYTES = 9_000_000_000  # tf5 has 8.6 GB
DEFAULT_UTILIZATION = 0.92  # vLLM's own


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
    need = need_of(workspace, load_recipe(workspace.root, options.recipe)) if options.recipe \
        else Need()
    lines = judge(facts_of(read_host(cache_folders(workspace))), need)
    if options.json:
        console.document([line.model_dump(mode="json") for line in lines])
    else:
        show(lines)
    return VerdictError.exit_code if any(line.verdict is Verdict.UNFIT for line in lines) else 0


def cache_folders(workspace: Workspace) -> tuple[Path, ...]:
    """Return the folders that a server's container writes into."""
    models = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    return (workspace.cache, Path(models))


def need_of(workspace: Workspace, recipe: Recipe) -> Need:
    """Return what a recipe needs of a host, as far as its file says it."""
    given = re.search(r"--gpu-memory-utilization[= ]([\d.]+)", " ".join(recipe.serve))
    share = float(given[1]) if given else DEFAULT_UTILIZATION
    image = workspace.matrix.images[recipe.image]
    local = recipe.model.path is not None
    return Need(name=recipe.name, memory_share=share if image.gpu else 0.0, cuda=image.cuda or "",
                image=IMAGE_BYTES if image.gpu else 0,
                model=0 if local else int(recipe.model.parameters_billion * BYTES_A_BILLION))


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
