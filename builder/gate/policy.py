"""Which files must have code for a cell's GPU; the data is ``policy.toml``."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import tomli

from builder.model import Frozen


class Need(StrEnum):
    """Whether a GPU needs a file's code: always, for an optional feature only, or never."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    NEVER = "never"


class Rule(Frozen):
    """What applies to the files that match ``pattern``, on the GPUs that match ``gpus``."""

    pattern: str
    gpus: str = "sm_*"
    need: Need
    reason: str
    link: str


# A file without a rule must have code: exceptions are named, with a reason.
UNJUDGED = Rule(pattern="*", need=Need.REQUIRED, link="",
                reason="no rule in the gate's policy.toml says that this file is not needed")


class Policy(Frozen):
    """All of ``policy.toml``; the first rule that matches a file applies."""

    rule_list: tuple[Rule, ...] = ()

    def rule(self, path: str, gpu: str) -> Rule:
        """Return the rule for a file on a GPU."""
        return next((rule for rule in self.rule_list if fnmatchcase(path, rule.pattern)
                     and fnmatchcase(gpu, rule.gpus)), UNJUDGED)


@cache
def policy() -> Policy:
    """Read the policy that comes with the program."""
    raw = tomli.loads(Path(__file__).with_name("policy.toml").read_text(encoding="utf-8"))
    return Policy(rule_list=tuple(Rule.model_validate(rule) for rule in raw["rule"]))
