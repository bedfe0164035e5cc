"""Who ended a container: only one that ended by itself says something about its image."""

from __future__ import annotations

from typing import Any

import pytest

from builder.engine.client import RunSpec
from builder.engine.container import ContainerState
from builder.errors import EngineError
from builder.smoke.ended import ended, refuse_if_stopped

LIFE = ("create", "start")


class Box:
    """Stands in for a container and the engine's memory of it."""

    spec = RunSpec("r/cpu:cpu")

    def __init__(self, *actions: str, status: str = "exited", code: int = 1,
                 memory: bool = False) -> None:
        self.told = ContainerState(status, code, memory, "")
        self.done = actions

    def state(self) -> ContainerState:
        return self.told

    def actions(self) -> tuple[str, ...]:
        return self.done


@pytest.mark.parametrize(("box", "said"), [
    (Box(*LIFE, status="running"), ""),
    (Box(*LIFE, "die"), "the server ended with status 1"),
    (Box(*LIFE, "die", code=0), "the server ended with status 0"),
    (Box(*LIFE, "oom", "die", code=137, memory=True),
     "the server ended with status 137 (out of memory)")])
def test_an_end_of_its_own_is_a_finding(box: Any, said: str) -> None:
    assert ended(box) == said


@pytest.mark.parametrize(("box", "said"), [
    (Box(), "started anew"),
    (Box(*LIFE, "kill", "stop", "die", code=0), "stopped from outside"),
    (Box(*LIFE, "kill", "die", code=137), "stopped from outside")])
def test_an_end_from_outside_is_none(box: Any, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        ended(box)


def test_a_server_that_is_being_stopped_has_not_failed() -> None:
    refuse_if_stopped(Box(*LIFE))  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="stopped from outside"):
        refuse_if_stopped(Box(*LIFE, "kill", status="running"))  # type: ignore[arg-type]
