"""``sparkyard serve``: start a recipe's server and return when it answers rightly."""

from __future__ import annotations

import argparse

from builder import console
from builder.commands.serve_options import add_launch_options, explain_failure, prepare, tell
from builder.engine.client import Engine
from builder.errors import INTERRUPTED_EXIT_CODE
from builder.serve.at_work import at_work
from builder.serve.servers import survey
from builder.serve.start import detached, serve, usage
from builder.workspace import open_workspace


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = stages.add_parser(
        "serve", help="start a recipe's server in the background; return when it answers rightly",
        description="Checks the recipe, starts its server in a container that stays, follows the "
                    "boot and asks a few questions. Ctrl-C detaches and does not stop the server. "
                    "docs/serve.md explains rights, files and addresses.")
    add_launch_options(parser)
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Serve; 1 where the server did not become ready, 130 where Ctrl-C left it starting."""
    workspace = open_workspace(options.matrix)
    engine = Engine.connect()
    with at_work(workspace.cache, f"serve {options.recipe}"):
        launch = prepare(workspace, engine, options)
        try:
            outcome = serve(engine, workspace, launch)
        except KeyboardInterrupt:
            if not any(server.launch == launch.digest for server in survey(engine).running):
                raise
            console.info("\n".join(detached(options.recipe)))
            return INTERRUPTED_EXIT_CODE
        if not outcome.ready:
            explain_failure(options.recipe, outcome)
            return 1
        server = next(server for server in survey(engine).running
                      if server.launch == launch.digest)
    tell(list(usage(server)))
    return 0
