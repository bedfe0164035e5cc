"""Which files with GPU code a cell's GPU must have code for; the data is ``policy.toml``."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import tomli

from builder.model import Frozen


class Need(StrEnum):
    """Whether a GPU needs a file's code: always, for something that can be left, or never."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    NEVER = "never"


class Rule(Frozen):
    """What holds for the files that ``pattern`` names, on GPUs that ``gpus`` names."""

    pattern: str
    gpus: str = "sm_*"
    need: Need
    reason: str
    link: str


# What nobody has judged must have code: a file is excused by name and reason only.
UNJUDGED = Rule(pattern="*", need=Need.REQUIRED, link="",
                reason="no entry of the gate's policy says that it can do without")


class Policy(Frozen):
    """All of ``policy.toml``; the first rule that fits a file holds."""

    rule_list: tuple[Rule, ...] = ()

    def rule(self, path: str, gpu: str) -> Rule:
        """Return what holds for a file on a GPU."""
        return next((rule for rule in self.rule_list if fnmatchcase(path, rule.pattern)
                     and fnmatchcase(gpu, rule.gpus)), UNJUDGED)


@cache
def policy() -> Policy:
    """Read the policy that comes with the program."""
    raw = tomli.loads(Path(__file__).with_name("policy.toml").read_text(encoding="utf-8"))
    return Policy(rule_list=tuple(Rule.model_validate(rule) for rule in raw["rule"]))
