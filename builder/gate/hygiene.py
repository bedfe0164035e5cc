"""What is wrong with wheels as archives, and where two of them install different files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from builder.binaries.facts import Damage, WheelFacts
from builder.gate.rules import Rules, rules
from builder.locking.findings import Finding, FindingCode, Severity

# All other damage is an error: such a wheel must not enter an image.
WARNINGS = (FindingCode.RECORD_UNLISTED, FindingCode.ELF_DAMAGED, FindingCode.FATBIN_DAMAGED,
            FindingCode.FILE_CHANGED, FindingCode.FILE_LOST, FindingCode.PTH_RUNS_CODE)
MILDER = {Severity.ERROR: Severity.WARNING, Severity.WARNING: Severity.NOTE}
IMAGE_STEP = "pull or build the image again, unless the change was intended"
STEPS = {
    FindingCode.WHEEL_UNREADABLE: "download or copy the file again; if its sha256 is the published "
                                  "one, lock another version",
    FindingCode.PTH_RUNS_CODE: "read the line; if it is harmless, add it with the reason to "
                               "builder/gate/rules.toml, else do not install the wheel",
    FindingCode.FILE_CHANGED: IMAGE_STEP, FindingCode.FILE_LOST: IMAGE_STEP,
    FindingCode.FILE_BROKEN: IMAGE_STEP}
ERROR_STEP = "lock another version: this one may not install completely"
WARNING_STEP = "report it to the wheel's publisher"


def check_hygiene(wheels: Sequence[WheelFacts], known: Rules | None = None
                  ) -> tuple[Finding, ...]:
    """Return damage first, then the paths that two wheels bring with different bytes."""
    policy = known or rules()
    damage = [_damaged(wheel, one, policy) for wheel in wheels for one in wheel.damage]
    return (*damage, *_collisions(wheels, policy))


def _damaged(wheel: WheelFacts, damage: Damage, known: Rules) -> Finding:
    """Return damage as a finding; where a rule knows it, one level milder and with the reason."""
    severity = Severity.WARNING if damage.code in WARNINGS else Severity.ERROR
    where = f"{damage.file} in {wheel.file}" if damage.file else wheel.file
    what = f"{where}: {damage.detail}"
    step = STEPS.get(damage.code, ERROR_STEP if severity is Severity.ERROR else WARNING_STEP)
    rule = known.known_damage(wheel.name, damage.code, damage.file)
    if rule is not None:
        severity, what, step = MILDER[severity], f"{what}; {rule.reason}", rule.link
    return Finding(damage.code, what, step, severity, wheel.file, damage.file,
                   found=damage.detail)


def _collisions(wheels: Sequence[WheelFacts], known: Rules) -> Iterator[Finding]:
    owners: dict[str, dict[str, str]] = defaultdict(dict)
    for wheel in wheels:
        for path, digest in wheel.members:
            owners[path].setdefault(digest, wheel.file)
    for path, files in sorted(owners.items()):
        if len(files) > 1 and not path.endswith(".pyc"):  # bytecode goes with its source
            rule = next((rule for rule in known.collision if fnmatchcase(path, rule.pattern)),
                        None)
            names = sorted(files.values())
            yield Finding(
                FindingCode.FILE_COLLISION, f"{' and '.join(names)} install different files as "
                f"{path}" + (f"; {rule.reason}" if rule else ""),
                rule.link if rule else "leave one of them out, or report it to their publishers",
                Severity.NOTE if rule else Severity.WARNING, names[-1], path,
                expected="one owner", found=", ".join(names))
