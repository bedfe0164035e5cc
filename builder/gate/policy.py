"""Which files must have code for a cell's GPU; the data is ``policy.toml``."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import tomli

from builder import specifiers
from builder.model import Frozen, Specifier


class Need(StrEnum):
    """Whether a GPU needs a file's code: always, for an optional feature only, or never."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    NEVER = "never"


class Rule(Frozen):
    """What applies to the files that match ``pattern``, on the GPUs that match ``gpus``.

    ``versions`` are those of the file's wheel for which the rule holds: what one release never
    calls, a later one may. A rule with ``kernels`` is for stubs, whose mangled name has to match.
    """

    pattern: str
    gpus: str = "sm_*"
    versions: Specifier = specifiers.ANY
    kernels: str = ""
    need: Need
    reason: str
    link: str

    def applies(self, path: str, gpu: str, version: str) -> bool:
        """Say whether the rule is for a file of a wheel of this version, on a GPU."""
        return (fnmatchcase(path, self.pattern) and fnmatchcase(gpu, self.gpus)
                and (self.versions == specifiers.ANY
                     or specifiers.allows(self.versions, version)))


# A file without a rule must have code: exceptions are named, with a reason.
UNJUDGED = Rule(pattern="*", need=Need.REQUIRED, link="",
                reason="no rule in the gate's policy.toml says that this file is not needed")


class Policy(Frozen):
    """All of ``policy.toml``; the first rule that matches a file applies."""

    rule_list: tuple[Rule, ...] = ()
    stubs: tuple[Rule, ...] = ()

    def rule(self, path: str, gpu: str, version: str = "") -> Rule:
        """Return the rule for a file on a GPU; ``version`` is that of its wheel."""
        return next((rule for rule in self.rule_list if rule.applies(path, gpu, version)),
                    UNJUDGED)

    def stub(self, path: str, kernel: str, gpu: str, version: str) -> Rule:
        """Return the rule for a kernel that refuses to run, else that of its file."""
        return next((rule for rule in self.stubs if rule.applies(path, gpu, version)
                     and fnmatchcase(kernel, rule.kernels)), self.rule(path, gpu, version))


@cache
def policy() -> Policy:
    """Read the policy that comes with the program."""
    raw = tomli.loads(Path(__file__).with_name("policy.toml").read_text(encoding="utf-8"))
    return Policy(rule_list=tuple(map(Rule.model_validate, raw["rule"])),
                  stubs=tuple(map(Rule.model_validate, raw["stub"])))
