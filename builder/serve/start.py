"""A server started, or one that is starting already followed: until it answers rightly."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import suppress

from builder import console
from builder.engine.client import Engine
from builder.engine.service import (
    NEVER,
    UNLESS_STOPPED,
    create_service,
    remove_service,
    set_restart,
    start_service,
)
from builder.errors import EngineError, SparkyardError, UsageError, command
from builder.serve import memory
from builder.serve.api_key import VARIABLE
from builder.serve.boot import Outcome, follow
from builder.serve.end import stop
from builder.serve.launch import Launch, make_folders
from builder.serve.servers import Server, Survey, survey
from builder.workspace import Workspace


def serve(engine: Engine, workspace: Workspace, launch: Launch) -> Outcome:
    """Start a server, or follow the same one that runs already; a failed one is removed.

    Raises UsageError where another server of ours is in the way.
    """
    known = survey(engine)
    _refuse_while_switching(known)
    server = _same(known, launch)
    if server is None:
        _refuse_taken_port(known, launch)
        for dead in known.of(launch.recipe.name):
            if not dead.running:
                console.info(f"removing what an earlier {dead.recipe} left (it had ended)")
                remove_service(engine.docker, dead.id, dead.name)
        if lack := memory.lacking(launch.recipe, launch.cell, memory.look()):
            console.warn(lack)
        server = begin(engine, launch)
    else:
        console.info(f"{server.recipe} runs already; it is followed until it answers")
    outcome = await_ready(engine, workspace, server, launch)
    if not outcome.ready:
        stop(engine, server, remove=True)
    return outcome


def begin(engine: Engine, launch: Launch) -> Server:
    """Create and start the container; nothing is left of one that cannot start."""
    identity = create(engine, launch)
    try:
        start_service(engine.docker, identity, launch.spec.name)
    except BaseException:
        with suppress(SparkyardError):  # why it did not start matters more
            remove_service(engine.docker, identity, launch.spec.name)
        raise
    return server_of(engine, identity)


def create(engine: Engine, launch: Launch) -> str:
    """Create the container, not started, and say what its start will take."""
    for line in announcement(launch):
        console.info(line)
    make_folders(launch)
    return create_service(engine.docker, launch.spec)


def announcement(launch: Launch) -> Iterator[str]:
    """Yield what is said before a start: which image, and whether it compiles anew."""
    spec, host = launch.spec, launch.asked.host
    yield (f"{launch.recipe.name} on {launch.cell.id}, image {spec.image[7:19]}, "
           f"as user {spec.user}, at {host} port {launch.asked.port}")
    yield from (f"  {remark}" for remark in launch.remarks)
    if launch.compiled and launch.compiled.why:
        yield (f"  it will compile before it answers, which takes minutes: {launch.compiled.why}. "
               f"The result is kept in {launch.compiled.folder}")


def await_ready(engine: Engine, workspace: Workspace, server: Server, launch: Launch) -> Outcome:
    """Follow a start to its end; a ready server gets its restart policy, and not before."""
    outcome = follow(engine, server, launch.recipe.capabilities, workspace.cache, launch.versions,
                     emulated=launch.emulated)
    if outcome.ready:
        set_restart(engine.docker, server.id, server.name,
                    UNLESS_STOPPED if launch.asked.restart or server.restart else NEVER)
    return outcome


def server_of(engine: Engine, identity: str) -> Server:
    """Return the server with an id; raises EngineError where it is gone."""
    found = next((server for server in survey(engine).servers if server.id == identity), None)
    if found is None:
        raise EngineError("the container was removed by somebody else", where=identity[:12],
                          next_step="run the same command again")
    return found


def usage(server: Server) -> Iterator[str]:
    """Yield how to talk to a server that is ready, and how to end it."""
    read = f"$(sed s/^{VARIABLE}=// {shlex.quote(str(server.key_file))})"
    key = f' -H "Authorization: Bearer {read}"' if server.key_file else ""
    yield f"{server.recipe} answers at {server.url}"
    if server.key_file:
        yield f"the API key is in {server.key_file}"
    yield ""
    yield f"  curl {shlex.quote(f'{server.url}/chat/completions')}{key} \\"
    yield "    -H 'Content-Type: application/json' \\"
    question = {"model": server.model, "messages": [
        {"role": "user", "content": "What is the capital of France?"}]}
    yield f"    -d {shlex.quote(json.dumps(question))}"
    yield ""
    yield (f"  {command('status')} · {command('logs', '-f')} · {command('stop')} · "
           f"{command('switch', 'RECIPE')}")


def detached(server: str) -> Iterator[str]:
    """Yield what is said after Ctrl-C: the server was not ended."""
    yield f"detached: {server} goes on starting, and was not stopped"
    yield (f"  {command('status')} shows it, {command('logs', '-f')} follows it, "
           f"{command('stop')} ends it")


def _same(known: Survey, launch: Launch) -> Server | None:
    return next((server for server in known.running if server.launch == launch.digest), None)


def _refuse_while_switching(known: Survey) -> None:
    if known.switch:
        old, new = known.switch.old, known.switch.new
        raise UsageError(f"a switch from {old.recipe} to {new.recipe} is not complete",
                         where="servers", next_step=f"finish it: {command('switch', new.recipe)}, "
                         f"or go back: {command('switch', old.recipe)}")


def _refuse_taken_port(known: Survey, launch: Launch) -> None:
    holder = next((server for server in known.running if server.port == launch.asked.port), None)
    if holder:
        raise UsageError(
            f"port {holder.port} is that of {holder.recipe}, which runs"
            + (" with other options" if holder.recipe == launch.recipe.name else ""),
            where="--port", next_step=f"replace it: {command('switch', launch.recipe.name)}, "
            f"stop it: {command('stop', holder.recipe)}, or choose another port with --port")
