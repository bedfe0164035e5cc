"""``sparkyard status``: the servers that were started with serve, and whether they answer."""

from __future__ import annotations

import argparse

from builder import console
from builder.engine.client import Engine
from builder.serve.at_work import who_is_at_work
from builder.serve.servers import survey
from builder.serve.status import notes, rows
from builder.workspace import open_workspace


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = stages.add_parser(
        "status", help="show the servers that run, and whether they answer",
        description="Each running server is asked one question. Exit code 1 where a server does "
                    "not do what it should.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Show every server; 1 where one has ended, or answers wrongly."""
    workspace = open_workspace(options.matrix, make_cache=False)
    engine = Engine.connect()
    known, busy = survey(engine), who_is_at_work(workspace.cache)
    found = rows(engine, known)
    if options.json:
        console.document({"servers": [row.document() for row in found],
                          "notes": list(notes(known, busy))})
    elif not found:
        console.out("no server of ours runs")
    else:
        console.table("", ["recipe", "image", "state", "address", "since", "answers", "memory"], [
            [row.recipe, row.image, row.state, row.address, row.since, row.answers,
             console.size(row.memory)] for row in found])
    if not options.json:
        for note in notes(known, busy):
            console.info(note)
    return int(not busy and not all(row.good for row in found))
