"""A server stopped: asked to end, waited for, its memory free again, what remains named."""

from __future__ import annotations

from builder import console
from builder.engine.client import Engine
from builder.engine.service import Attached, remove_service, stop_service
from builder.errors import EngineError
from builder.serve import memory
from builder.serve.servers import Server

GRACE_S = 60.0  # a server ends within 3 s; one that is still loading may take longer


def stop(engine: Engine, server: Server, *, remove: bool) -> None:
    """Stop a server, wait until its memory is free, and remove its container when ``remove``.

    Who still holds memory a minute later is named; that is a warning, no error: the server ended.
    """
    if server.running:
        console.info(f"stopping {server.recipe} (at most {GRACE_S:.0f} s) …")
        before, pids = memory.look(), _pids(engine, server)
        stop_service(engine.docker, server.id, server.name, GRACE_S)
        for holder in memory.await_free(pids, before):
            console.warn(f"memory is still held: {holder}")
        gained = memory.look().available - before.available
        console.info(f"  stopped; {console.size(max(0, gained))} more memory is free")
    if remove:
        remove_service(engine.docker, server.id, server.name)


def _pids(engine: Engine, server: Server) -> dict[int, str]:
    try:
        return memory.identities(Attached(engine.docker, server.id, server.image).pids())
    except EngineError:  # it ended meanwhile
        return {}
