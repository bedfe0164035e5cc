"""Requirements without an upper bound, of the packages that are listed."""

from __future__ import annotations

import pytest
from gate_facts import a_wheel

from builder.gate.bounds import check_bounds
from builder.gate.metadata import environment

MARKERS = environment("3.11", "aarch64")
DSL = "nvidia-cutlass-dsl"


def found(version: str, *requires: str, name: str = DSL) -> list[str]:
    wheels = [a_wheel(f"user-{number}", requires=(text,)) for number, text in enumerate(requires)]
    return [one.what for one in check_bounds([*wheels, a_wheel(name, version)], MARKERS)]


def test_a_newer_minor_version_than_any_user_was_made_for() -> None:
    (what,) = found("4.8.1", f"{DSL}>=4.7", f"{DSL}>=4.4.2")
    assert "user-1 1.0 requires nvidia-cutlass-dsl>=4.4.2" in what


@pytest.mark.parametrize(("version", "requires"), [
    ("4.8.0", (f"{DSL}==4.8.0", f"{DSL}>=4.4.2")),  # as vLLM 0.32 has it
    ("4.8.1", (f"{DSL}>=4.4.2,<5",)), ("4.4.9", (f"{DSL}>=4.4.2",)), ("4.8.1", (DSL,)),
    ("4.8.1", ()), ("4.8.1", (f"{DSL}>={'9' * 5000}",))])
def test_one_bound_is_enough(version: str, requires: tuple[str, ...]) -> None:
    assert found(version, *requires) == []


def test_other_packages_are_not_asked_for_a_bound() -> None:
    assert found("99.0", "click>=8", name="click") == []
