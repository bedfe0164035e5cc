"""One look: counters, health and memory; what does not answer is not taken for zero."""

from __future__ import annotations

from typing import Any, cast

from builder.engine.client import Container
from builder.errors import EngineError
from builder.process import Result
from builder.smoke.client import Client
from builder.smoke.soak.samples import Sample, memory, read_memory, take
from tests.unit.fake_openai import serving

STATUS = """Name:\tpython3
VmRSS:\t  20480 kB
RssAnon:\t    1024 kB
RssFile:\t   18432 kB
Name:\tVLLM::EngineCor
RssAnon:\t    2048 kB
complete
"""


class Box:
    """A container that answers one text to every command, or raises."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer

    def exec(self, command: list[str], **_: Any) -> Result:
        if isinstance(self.answer, Exception):
            raise self.answer
        return Result(tuple(command), 0, self.answer, "")


def test_memory_is_added_up_over_all_processes() -> None:
    assert read_memory(STATUS) == 3 * 1024 * 1024
    assert memory(cast(Container, Box(STATUS))) == 3 * 1024 * 1024


def test_a_list_that_was_cut_off_and_a_container_that_is_gone_show_nothing() -> None:
    assert read_memory(STATUS.removesuffix("complete\n")) == 0
    assert memory(cast(Container, Box(EngineError("gone", next_step="none")))) == 0


def test_a_look_holds_the_counters_and_the_health() -> None:
    with serving() as (port, fake):
        fake.prompted, fake.generated, fake.running, fake.held = 30, 12, 2, 0.25
        found = take(cast(Container, Box(STATUS)), Client(port, "tiny"), 1.5, 4, 9)
    assert found == Sample(1.5, 200, 4, 9, 30, 12, 2, 0, 0.25, 3 * 1024 * 1024)
    assert found.worked == 42


def test_a_server_that_is_not_there_has_no_counters() -> None:
    with serving() as (port, _):
        pass
    found = take(cast(Container, Box(STATUS)), Client(port, "tiny"), 1.5, 4, 9)
    assert (found.health, found.worked) == (0, None)
