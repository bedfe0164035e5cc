"""One server in the place of another: the old one comes back if the new one is not ready.

The order makes each moment readable from the engine alone: the new container is created, with the
name of the old one in its labels; the old one is stopped but kept; its memory is waited for; the
new one starts; only when it answers rightly is the old one removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from builder import console
from builder.engine.client import Engine
from builder.engine.service import (
    NEVER,
    UNLESS_STOPPED,
    remove_service,
    set_restart,
    start_service,
)
from builder.errors import SparkyardError, UsageError, command
from builder.recipes.load import load_recipe
from builder.recipes.models import Capabilities
from builder.serve import memory
from builder.serve.boot import Outcome, follow
from builder.serve.end import stop
from builder.serve.launch import Launch
from builder.serve.servers import Server, Survey, Switch, names, survey
from builder.serve.start import await_ready, create, serve, server_of
from builder.workspace import Workspace


@dataclass(frozen=True)
class Switched:
    """How a switch ended; ``serving`` is what answers now, None where nothing does."""

    outcome: Outcome
    serving: Server | None
    back: Outcome | None = None


def to_replace(known: Survey, name: str | None) -> Server | None:
    """Return the server whose place is taken: the named one, else the only one.

    Raises UsageError where several run, or none of that name.
    """
    found = [server for server in known.running if not name or name in (server.recipe, server.name)]
    if name and not found:
        raise UsageError(f"no server of {name} runs", where="--from",
                         next_step=f"{command('status')} shows those that do")
    if len(found) > 1:
        raise UsageError(f"{len(found)} servers run: {names(found)}", where="--from",
                         next_step="say with --from which one is to be replaced")
    return found[0] if found else None


def switch(engine: Engine, workspace: Workspace, launch: Launch, replaced: str | None = None
           ) -> Switched:
    """Put a server in the place of another, or go on with a switch that was cut off."""
    known = survey(engine)
    if known.switch:
        return _go_on(engine, workspace, launch, known.switch)
    old = to_replace(known, replaced)
    if old is None:
        console.info("no server of ours runs, so that this is a start")
        return _plain(engine, serve(engine, workspace, launch), launch)
    if old.launch == launch.digest:
        console.info(f"{old.recipe} runs with these very options already")
        return _plain(engine, await_ready(engine, workspace, old, launch), launch)
    identity = create(engine, launch.replacing(old.id))
    return _change(engine, workspace, launch, Switch(old, server_of(engine, identity)))


def _plain(engine: Engine, outcome: Outcome, launch: Launch) -> Switched:
    running = (server for server in survey(engine).running if server.launch == launch.digest)
    return Switched(outcome, next(running, None) if outcome.ready else None)


def _go_on(engine: Engine, workspace: Workspace, launch: Launch, cut_off: Switch) -> Switched:
    """Finish a switch that was cut off, or go back, by what is asked for now."""
    old, new = cut_off.old, cut_off.new
    if new.launch == launch.digest or (new.recipe == launch.recipe.name != old.recipe):
        console.info(f"going on with the switch from {old.recipe} to {new.recipe}, which was cut "
                     "off")
        return _change(engine, workspace, launch, cut_off)
    if old.recipe == launch.recipe.name:
        console.info(f"the switch from {old.recipe} to {new.recipe} was cut off: going back")
        back = restore(engine, workspace, cut_off)
        return Switched(back, server_of(engine, old.id) if back.ready else None)
    raise UsageError(f"a switch from {old.recipe} to {new.recipe} was cut off",
                     where="servers", next_step=f"finish it: {command('switch', new.recipe)}, or "
                     f"go back: {command('switch', old.recipe)}; then switch to "
                     f"{launch.recipe.name}")


def _change(engine: Engine, workspace: Workspace, launch: Launch, change: Switch) -> Switched:
    """Stop the old one, start the new one, and keep the one that answers."""
    old, new = change.old, change.new
    try:
        stop(engine, old, remove=False)
        outcome = _start(engine, workspace, launch, new)
    except SparkyardError as error:
        console.warn(f"{error.what} ({error.where})")
        outcome = Outcome(error.what.splitlines()[0])
    if outcome.ready:
        remove_service(engine.docker, old.id, old.name)
        return Switched(outcome, server_of(engine, new.id))
    console.info(f"{new.recipe} is not ready: {outcome.why}")
    back = restore(engine, workspace, change)
    return Switched(outcome, server_of(engine, old.id) if back.ready else None, back)


def _start(engine: Engine, workspace: Workspace, launch: Launch, new: Server) -> Outcome:
    if not new.was_started:
        if lack := memory.lacking(launch.recipe, launch.cell, memory.look()):
            return Outcome(lack)
        start_service(engine.docker, new.id, new.name)
    return await_ready(engine, workspace, new, launch)


def restore(engine: Engine, workspace: Workspace, change: Switch) -> Outcome:
    """Bring the old server back, as it was, and remove the new one."""
    old, new = change.old, change.new
    stop(engine, new, remove=True)
    console.info(f"bringing {old.recipe} back")
    if not old.running or not server_of(engine, old.id).running:
        start_service(engine.docker, old.id, old.name)
    outcome = follow(engine, server_of(engine, old.id), _abilities(workspace, old),
                     workspace.cache, {})
    if outcome.ready:
        set_restart(engine.docker, old.id, old.name, UNLESS_STOPPED if old.restart else NEVER)
    return outcome


def _abilities(workspace: Workspace, server: Server) -> Capabilities:
    """Return what a server's model can do; words only where its recipe is no longer there."""
    try:
        return load_recipe(workspace.root, server.recipe).capabilities
    except SparkyardError:
        return Capabilities()
