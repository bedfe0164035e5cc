"""Red for the right reason: servers that hang in the compile or answer 500 to one request in ten.

A server that poses as vLLM's stands in for it; ``test_smoke_death`` has the deaths of a real one.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builder.diagnosis.catalogue import load
from builder.diagnosis.matching import diagnose
from builder.engine.client import Engine, RunSpec
from builder.record.check import Status
from builder.smoke import readiness
from builder.smoke.container_end import running
from builder.smoke.log import Log
from builder.smoke.readiness import Boot
from builder.smoke.watch import Watch
from tests.integration.test_smoke_faults import Place, ended, image

pytestmark = pytest.mark.engine
__all__ = ["image"]  # the fixture

ROOT = Path(__file__).parents[2]


def test_a_hang_in_the_compile_is_no_long_compile(image: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """The half hour that a compile may be silent is two seconds here; other phases keep theirs."""
    monkeypatch.setattr(readiness, "PHASES", tuple(
        phase.model_copy(update={"silence": 2}) if phase.name == "compile" else phase
        for phase in readiness.PHASES))
    spec = RunSpec(image, ("python", "-m", "vllm.entrypoints.openai.api_server", "--port", "8000"),
                   env={"POSING_HANGS": "yes"})
    with running(Engine.connect(), spec) as (box, events):
        watch = Watch(box, events, Log(box), Boot())
        found = watch.boot()
        assert found.status is Status.FAIL
        assert re.match(r'no line for \d+ s in phase "compile"', found.detail)
        codes = [item.issue.name for item in diagnose(watch.log.lines, load(), [found])]
        assert codes == ["compile-cache-missed", "engine-dead"]


def test_one_500_in_ten_is_flaky_and_so_no_pass(image: str, tmp_path: Path) -> None:
    place = Place(tmp_path, POSING_FAILS="10")
    ended(place.smoke(image), 1)
    record = place.record()
    wrong = [check for check in record.checks
             if check.status in (Status.FAIL, Status.FLAKY)]
    assert (record.verdict, record.state) == ("fail", "finished")
    assert len(wrong) >= 3
    assert all("500" in check.detail for check in wrong)
    assert Status.FLAKY in {check.status for check in wrong}
    assert [known.name for known in record.diagnosis] == ["server-errors"]
