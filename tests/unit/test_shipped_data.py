"""Every data file that comes with the program reads, and a mistake in one is found by its name.

Whoever edits a file sees it in the name of the test that fails, not in a test of something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path

import pytest
from pydantic import ValidationError

from builder.diagnosis import catalogue
from builder.doctor import judging
from builder.gate import explain, jit, policy
from builder.gate import rules as gate_rules
from builder.lean import rules as lean_rules
from builder.smoke.soak import rules as soak_rules

BUILDER = Path(__file__).parents[2] / "builder"
READERS: dict[str, Callable[[], Sized]] = {
    "gate/policy.toml": lambda: policy.policy.__wrapped__().rule_list,
    "gate/jit.toml": lambda: jit.jit.__wrapped__().compiler,
    "gate/rules.toml": lambda: gate_rules.rules.__wrapped__().after,
    "gate/explain.toml": lambda: explain.explanations.__wrapped__(),
    "lean/rules.toml": lambda: lean_rules.rules.__wrapped__().leave_out,
    "smoke/soak/rules.toml": lambda: soak_rules.rules.__wrapped__().model_dump(),
    "doctor/rules.toml": lambda: judging.rules.__wrapped__(),
    "diagnosis/issues": lambda: catalogue.load.__wrapped__().issues,
}


@pytest.mark.parametrize("name", READERS)
def test_it_reads_and_holds_something(name: str) -> None:
    assert (BUILDER / name).exists()
    assert len(READERS[name]()) > 0


def test_an_entry_without_its_link_is_refused() -> None:
    with pytest.raises(ValidationError, match="link"):
        policy.Rule.model_validate({"pattern": "x", "need": "never", "reason": "a reason"})
