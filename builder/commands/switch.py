"""``sparkyard switch``: another recipe in the place of the one that is served."""

from __future__ import annotations

import argparse

from builder import console
from builder.commands.serve_options import add_launch_options, explain_failure, prepare, tell
from builder.engine.client import Engine
from builder.errors import INTERRUPTED_EXIT_CODE, command
from builder.serve.at_work import at_work
from builder.serve.servers import Server, survey
from builder.serve.start import usage
from builder.serve.switch import Switched, switch, to_replace
from builder.workspace import open_workspace


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = stages.add_parser(
        "switch", help="serve another recipe in the place of the one that is served",
        description="Stops the server, waits until its memory is free, starts the other one at the "
                    "same address, and brings the old one back if the new one does not become "
                    "ready. Cut off at any moment, the same command goes on, and a switch to the "
                    "old recipe goes back.")
    add_launch_options(parser)
    parser.add_argument("--from", dest="replaced", metavar="RECIPE",
                        help="which server to replace, where several run")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Switch; 1 where the asked server is not what answers afterwards."""
    workspace = open_workspace(options.matrix)
    engine = Engine.connect()
    with at_work(workspace.cache, f"switch {options.recipe}"):
        launch = prepare(workspace, engine, options, _address_of(engine, options.replaced))
        try:
            result = switch(engine, workspace, launch, options.replaced)
        except KeyboardInterrupt:
            known = survey(engine).switch
            if known is None:
                raise
            console.info(f"detached: the switch from {known.old.recipe} to {known.new.recipe} is "
                         f"not complete, and nothing was undone. Go on: "
                         f"{command('switch', known.new.recipe)}, go back: "
                         f"{command('switch', known.old.recipe)}")
            return INTERRUPTED_EXIT_CODE
    return _tell(options.recipe, result)


def _address_of(engine: Engine, replaced: str | None) -> Server | None:
    """Return the server whose address, key and restart policy the new one takes over."""
    known = survey(engine)
    return known.switch.old if known.switch else to_replace(known, replaced)


def _tell(name: str, result: Switched) -> int:
    if not result.outcome.ready:
        explain_failure(name, result.outcome)
    if result.back and not result.back.ready:
        explain_failure("the old server", result.back)
    if result.serving is None:
        console.warn("no server answers now")
        return 1
    if result.back:
        console.info(f"{result.serving.recipe} is back and answers")
    tell(list(usage(result.serving)))
    return int(not result.outcome.ready)
