"""``sparkyard logs``: what a server writes, now or as it comes."""

from __future__ import annotations

import argparse
from contextlib import closing

from builder import console
from builder.commands.option_types import whole_number
from builder.engine.client import Engine
from builder.engine.service import Attached
from builder.errors import UsageError, command
from builder.serve.servers import Server, names, survey
from builder.workspace import open_workspace

MOST_LINES = 10**8


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = stages.add_parser(
        "logs", help="show the log of a server that was started with serve",
        description="Shows the log since the server's last start. Ctrl-C ends a log that is "
                    "followed, and not the server.")
    parser.add_argument("recipe", metavar="RECIPE", nargs="?",
                        help="the server (default: the only one)")
    parser.add_argument("-f", "--follow", action="store_true",
                        help="go on with what the server writes from now on")
    parser.add_argument("-n", "--lines", type=whole_number(0, MOST_LINES), metavar="N",
                        help="begin with the last N lines (default: all)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print the log on standard output; Ctrl-C is a good end of one that is followed."""
    open_workspace(options.matrix, make_cache=False)
    engine = Engine.connect()
    server = choose(survey(engine).servers, options.recipe)
    with closing(Attached(
            engine.docker, server.id, server.image, tail=options.lines)) as box:
        try:
            for line in box.logs(follow=options.follow):
                console.out(line)
        except KeyboardInterrupt:
            console.info(f"{server.recipe} was not stopped")
    return 0


def choose(servers: tuple[Server, ...], name: str | None) -> Server:
    """Return the server that is meant; raises UsageError where there is none, or several."""
    found = [server for server in servers if not name or name in (server.recipe, server.name)]
    running = [server for server in found if server.running]
    if not found:
        raise UsageError(f"there is no server of {name}" if name else "no server of ours runs",
                         where="command line", next_step=f"{command('status')} lists the servers; "
                         "the log of one that failed is in the cache folder, in logs")
    if len(running or found) > 1:
        raise UsageError(f"there are {len(found)} servers: {names(found)}", where="command line",
                         next_step="name one")
    return (running or found)[0]
