"""Settings that are known to fail: rules as data (``rules.toml``), each with reason and source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from builder import specifiers
from builder.config_file import read_toml
from builder.model import Frozen, Link, Name, Pattern, Specifier
from builder.recipes.flag_check import arguments
from builder.recipes.models import Family, Recipe

RULES = Path(__file__).with_name("rules.toml")
TESTS = ("equals", "unlike", "above", "below", "matches", "is_set")


class Severity(StrEnum):
    """Whether a recipe with the finding can be served."""

    ERROR = "error"
    WARNING = "warning"


class Condition(Frozen):
    """What a rule asks of one flag, one key of its JSON, or one variable: exactly one test."""

    flag: str
    key: str = ""
    equals: str | None = None
    unlike: str | None = None
    above: float | None = None
    below: float | None = None
    matches: Pattern | None = None
    is_set: bool | None = Field(default=None, alias="set")

    @model_validator(mode="after")
    def _one_test(self) -> Condition:
        if sum(getattr(self, test) is not None for test in TESTS) != 1:
            raise ValueError(f"name exactly one of {', '.join(TESTS)}")
        return self

    def holds(self, values: Mapping[str, str]) -> bool:
        """Say whether it holds: flag, flag.key, or an environment variable's name -> value."""
        value = values.get(f"{self.flag}.{self.key}" if self.key else self.flag)
        if self.is_set is not None:
            return (value is not None) == self.is_set
        if value is None:
            return self.unlike is not None
        if self.matches is not None:
            return re.search(self.matches, value) is not None
        if self.above is not None or self.below is not None:
            found = number(value)
            return found is not None and (found > self.above if self.above is not None
                                          else found < (self.below or 0))
        return value == self.equals if self.equals is not None else value != self.unlike


class Rule(Frozen):
    """One rule: it applies where all of its conditions hold."""

    name: Name
    severity: Severity
    reason: str
    remedy: str
    link: Link
    family: Family | None = None
    gpu: bool | None = None
    architectures: tuple[str, ...] = ()
    vision: bool | None = None
    mixture_of_experts: bool | None = None
    repository: Pattern | None = None
    vllm: Specifier | None = None
    environment: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()

    def applies(self, recipe: Recipe, *, is_cuda: bool, vllm: str, architecture: str = "") -> bool:
        """Say whether the rule applies to a recipe on an image with this vLLM, for this GPU."""
        model = recipe.model
        facts = ((self.family, recipe.family), (self.gpu, is_cuda),
                 (self.vision, recipe.capabilities.vision),
                 (self.mixture_of_experts, model.active_billion < model.parameters_billion))
        if any(wanted is not None and wanted != fact for wanted, fact in facts):
            return False
        if self.architectures and architecture not in self.architectures:
            return False
        if self.repository and not re.search(self.repository, model.repository or ""):
            return False
        if self.vllm and not specifiers.allows(self.vllm, vllm):
            return False
        if self.environment and not set(self.environment) & set(recipe.environment):
            return False
        values = {**command_line(recipe.serve), **recipe.environment}
        return all(condition.holds(values) for condition in self.when)


class _Rules(Frozen):
    rule: tuple[Rule, ...]


@cache
def load_rules() -> tuple[Rule, ...]:
    """Return the rules of this installation."""
    return _Rules.model_validate(read_toml(RULES, what="rules for recipes", next_step="")).rule


def broken_rules(recipe: Recipe, *, is_cuda: bool, vllm: str, architecture: str = ""
                 ) -> Iterator[Rule]:
    """Yield the rules that apply to a recipe; ``architecture`` is the GPU's, such as sm_121."""
    return (rule for rule in load_rules() if rule.applies(
        recipe, is_cuda=is_cuda, vllm=vllm, architecture=architecture))


def command_line(serve: Sequence[str]) -> dict[str, str]:
    """Return flag -> value, and flag.key -> value of what is given as JSON; the last one counts.

    Keys within keys are left out: no rule asks for them.
    """
    values: dict[str, str] = {}
    for argument in arguments(serve):
        value = argument.values[0] if argument.values else ""
        values[argument.name] = value
        try:
            document = json.loads(value) if value.startswith("{") else {}
        except (ValueError, RecursionError):
            document = {}
        for key, inner in document.items():
            values[f"{argument.name}.{key}"] = inner if isinstance(inner, str) else json.dumps(
                inner)
    return values


def number(value: str) -> float | None:
    """Return a number as vLLM reads it: ``k`` is 1,000 and ``K`` 1,024."""
    found = re.fullmatch(r"(-?[\d.]{1,18})([kKmM]?)", value)
    try:
        return float(found[1]) * {"": 1, "k": 1e3, "K": 1024, "m": 1e6, "M": 1 << 20}[found[2]] \
            if found else None
    except ValueError:
        return None
