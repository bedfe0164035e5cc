"""How a container ended: by itself, which is a finding, or from outside, which is none."""

from __future__ import annotations

from builder.engine.client import Container
from builder.errors import EngineError

AGAIN = "run the same command again"


def ended(box: Container, what: str = "the server") -> str:
    """Return how the container ended by itself, called ``what``; nothing while it runs.

    Raises EngineError where the image is not to blame, as ``refuse_if_stopped`` does.
    """
    state = box.state()
    if state.running:
        return ""
    refuse_if_stopped(box, over=True)
    cause = " (out of memory)" if state.out_of_memory else ""
    return f"{what} ended with status {state.exit_code}{cause}"


def refuse_if_stopped(box: Container, *, over: bool = False) -> None:
    """Raise EngineError where the engine or somebody stopped the container.

    A status cannot tell: a server ends with 0 when it is asked to. The engine's own memory can: it
    holds a ``kill`` when the container was stopped by ``docker stop`` or by an engine that shuts
    down, and no ``die`` of one that is ``over`` when the engine was started anew since.
    """
    done = box.actions()
    if over and "die" not in done:
        raise EngineError("the Docker engine was started anew while the container ran",
                          where=box.spec.image, next_step=AGAIN)
    if "kill" in done:
        raise EngineError("the container was stopped from outside, by an engine that stops or by "
                          "`docker stop`", where=box.spec.image, next_step=AGAIN)
