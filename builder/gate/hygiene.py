"""What is wrong with the wheels as archives, and where two of them want one path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from builder.binaries.facts import Damage, WheelFacts
from builder.gate.rules import Rules, rules
from builder.locking.findings import Finding, Severity

# Everything else that is damaged is an error: such a wheel must not enter an image.
MILD = {"record-unlisted": Severity.WARNING, "elf-damaged": Severity.WARNING,
        "fatbin-damaged": Severity.WARNING, "file-changed": Severity.WARNING,
        "file-lost": Severity.WARNING}
NEXT_STEP = "lock another version of it; as published, it cannot be trusted to install whole"
INSTALL_STEP = "unless somebody meant it so, pull the image again, or build it again"
OTHER_STEPS = {
    "wheel-unreadable": "fetch or copy it again; where its sha256 is the published one, take "
                        "another version of it",
    "file-changed": INSTALL_STEP, "file-lost": INSTALL_STEP, "file-broken": INSTALL_STEP}


def check_hygiene(wheels: Sequence[WheelFacts], known: Rules | None = None
                  ) -> tuple[Finding, ...]:
    """Return damage first, then the files that two wheels bring with different bytes."""
    policy = known or rules()
    damage = [_damaged(wheel, one, policy) for wheel in wheels for one in wheel.damage]
    return (*damage, *_collisions(wheels, policy))


def _damaged(wheel: WheelFacts, damage: Damage, known: Rules) -> Finding:
    rule = known.known_damage(damage.code, damage.file)
    severity = Severity.WARNING if rule else MILD.get(damage.code, Severity.ERROR)
    where = f"{damage.file} in {wheel.file}" if damage.file else wheel.file
    step = NEXT_STEP if severity is Severity.ERROR else "tell its publisher"
    return Finding(damage.code, "",
                   f"{where}: {damage.detail}" + (f"; {rule.reason}" if rule else ""),
                   OTHER_STEPS.get(damage.code, step), severity, wheel.file, damage.file,
                   found=damage.detail)


def _collisions(wheels: Sequence[WheelFacts], known: Rules) -> Iterator[Finding]:
    owners: dict[str, dict[str, str]] = defaultdict(dict)
    for wheel in wheels:
        for path, digest in wheel.members:
            owners[path].setdefault(digest, wheel.file)
    for path, files in sorted(owners.items()):
        if len(files) > 1 and not path.endswith(".pyc"):  # it goes with its source
            rule = next((rule for rule in known.collision if fnmatchcase(path, rule.pattern)),
                        None)
            names = sorted(files.values())
            yield Finding(
                "file-collision", "", f"{path} comes with different bytes from "
                f"{' and '.join(names)}" + (f"; {rule.reason}" if rule else ""),
                rule.link if rule else "leave one of them out, or tell their publishers",
                Severity.NOTE if rule else Severity.WARNING, names[-1], path,
                expected="one owner", found=", ".join(names))
