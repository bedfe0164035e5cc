"""``sparkyard stop``: end a server, wait for its memory, and say what remains."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from builder import console
from builder.commands.option_types import refuse_beside
from builder.engine.client import Engine
from builder.errors import UsageError, command
from builder.recipes.hub import hub_folder
from builder.recipes.load import recipe_names
from builder.serve.at_work import at_work
from builder.serve.compiled import FOLDER
from builder.serve.end import stop
from builder.serve.launch import NAME_BEFORE
from builder.serve.servers import Server, names, survey
from builder.workspace import Workspace, open_workspace


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = stages.add_parser(
        "stop", help="stop a server that was started with serve, and wait until its memory is free",
        description="Asks the server to end, waits, and removes its container. Where none runs, "
                    "that is no error.")
    parser.add_argument("recipe", metavar="RECIPE", nargs="?",
                        help="the server to stop (default: the only one)")
    parser.add_argument("--all", action="store_true",
                        help="stop every server, and name every cache that stays")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Stop what is asked for; 0 also where nothing runs."""
    if options.all:
        refuse_beside(options, "--all", recipe="RECIPE")
    workspace = open_workspace(options.matrix)
    engine = Engine.connect()
    with at_work(workspace.cache, "stop"):
        chosen = choose(workspace, survey(engine).servers, options)
        for server in chosen:
            stop(engine, server, remove=True)
    for line in remains(workspace, chosen, every=options.all):
        console.info(line)
    return 0


def choose(workspace: Workspace, servers: tuple[Server, ...], options: argparse.Namespace
           ) -> list[Server]:
    """Return the servers to stop; raises UsageError where it is not clear which.

    Without a name that is the only server, with what a switch that was cut off left beside it.
    """
    if options.all:
        return list(servers)
    if options.recipe:
        found = [server for server in servers if options.recipe in (server.recipe, server.name)]
        if not found and options.recipe not in recipe_names(workspace.root):
            raise UsageError(f'there is no server and no recipe "{options.recipe}"',
                             where="command line",
                             next_step=f"{command('status')} lists the servers")
        return found
    running = [server for server in servers if server.running]
    if len(running) > 1:
        raise UsageError(f"{len(running)} servers run: {names(running)}", where="command line",
                         next_step="name one, or stop them with --all")
    return list(servers)


def remains(workspace: Workspace, stopped: list[Server], *, every: bool = False) -> Iterator[str]:
    """Yield what stopped servers leave: nothing but images and the caches that they used.

    With ``every`` also what servers left that ended before.
    """
    yield f"stopped: {names(stopped)}" if stopped else "no such server runs: nothing to stop"
    compiled = ["*"] if every else [f"{server.recipe}-*" for server in stopped]
    for folder in sorted({folder for pattern in compiled
                          for folder in (workspace.cache / FOLDER).glob(pattern)}):
        yield f"  kept: {folder} (compiled, {console.size(_size(folder))})"
    logs = [log for log in (workspace.cache / "logs").glob(f"{NAME_BEFORE}*.log") if every]
    if logs:
        yield f"  kept: {logs[0].parent} (logs of servers that failed: {len(logs)})"
    if any("/" in server.model for server in stopped) or (every and hub_folder().is_dir()):
        yield f"  kept: {hub_folder()} (models)"
    yield from (f"  kept: the image {image}"
                for image in sorted({server.image for server in stopped}))


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
