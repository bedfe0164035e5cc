"""How many failures of the field are named? `python -m benchmarks.diagnose [LOG…]`.

Reads from tests/fixtures field_failures.toml (what owners of a Spark posted), tracker_failures.toml
and blind_failures.toml (what was tried before it was known) and upstream_failures.toml (what the
programs print), and prints by kind how many are named rightly, wrongly or not at all; the first
name counts, and a family counts as right where its cause is. Then it tries the healthy logs of
tests/fixtures/healthy_logs, healthy_excerpts.toml (lines that owners of working servers posted) and
the logs that are given: nothing may be claimed of any. Ends with 1 where anything is named wrongly,
or a harmless or a context line is claimed as a cause.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli

from builder.diagnosis.catalogue import load
from builder.diagnosis.log_file import read_log
from builder.diagnosis.matching import diagnose

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
OWNERS = FIXTURES / "field_failures.toml"
FILES = (OWNERS, *(FIXTURES / f"{name}_failures.toml" for name in ("tracker", "blind", "upstream")))
HEALTHY = sorted(map(str, (FIXTURES / "healthy_logs").glob("*.log*")))
EXCERPTS = FIXTURES / "healthy_excerpts.toml"


def entries(file: Path) -> list[dict[str, Any]]:
    """Return the failures of a file."""
    with file.open("rb") as stream:
        failures: list[dict[str, Any]] = tomli.load(stream)["failure"]
    return failures


def claimed(lines: Sequence[str]) -> list[str]:
    """Return the names that are claimed for lines, the likeliest first."""
    return [item.issue.name for item in diagnose(lines, load()) if item.claimed]


def outcome(entry: dict[str, Any]) -> str:
    """Return whether an entry is named "right", "wrong" or "none"; the first name counts."""
    names = claimed(entry["log"].splitlines())
    if not names:
        return "none"
    return "right" if names[0] == entry["named"] else "wrong"


def families() -> set[str]:
    """Return the names that stand for a family of causes."""
    return {issue.name for issue in load().issues if issue.general}


def table(file: Path) -> list[str]:
    """Print how the entries of a file are named; return those that are named wrongly."""
    counts: dict[str, Counter[str]] = {}
    wrong = []
    for entry in entries(file):
        if "log" not in entry:
            continue
        literal = entry["lines"] in ("literal", "upstream")
        result = outcome(entry)
        kind = entry["kind"] if literal else f"({entry['lines']} lines)"
        counts.setdefault(kind, Counter())[result] += 1
        wrong += [entry["id"]] if result == "wrong" else []
    print(f"{file.name}\n  {'kind':18} {'right':>6} {'wrong':>6} {'none':>6}")
    for kind, count in sorted(counts.items()):
        print(f"  {kind:18} {count['right']:6} {count['wrong']:6} {count['none']:6}")
    total = sum((count for kind, count in counts.items() if kind[0] != "("), Counter[str]())
    print(f"  {total['right']} of {total.total()} right ({total['right'] / total.total():.0%}), "
          f"{total['wrong']} wrong; named wrongly: {', '.join(wrong) or 'none'}")
    family = sum(entry["named"] in families() for entry in entries(file) if "log" in entry)
    print(f"  {family} of them by the name of a family of causes")
    return wrong


def told() -> None:
    """Print what stands behind the failures of owners who posted no line."""
    issues = {issue.name: issue for issue in load().issues}
    prose = [entry["named"] for entry in entries(OWNERS) if "log" not in entry]
    by_check = sum(name in issues and not issues[name].patterns for name in prose)
    by_line = sum(name in issues for name in prose) - by_check
    print(f"told without a line: {len(prose)}; {by_line} have a line of upstream's, {by_check} are "
          f"found by a check of smoke, {len(prose) - by_line - by_check} are only explained")


def healthy(logs: Sequence[str]) -> list[str]:
    """Print what is claimed of healthy logs; return those of which anything is."""
    bad = []
    for name in logs:
        names = claimed(read_log(name).lines)
        bad += [name] if names else []
        print(f"  {Path(name).name}: {', '.join(names) or 'nothing claimed'}")
    print(f"healthy logs: {len(logs) - len(bad)} of {len(logs)} without a claim")
    return bad


def excerpts() -> list[str]:
    """Print of how many excerpts of healthy servers nothing is claimed; return the others."""
    with EXCERPTS.open("rb") as stream:
        posted = tomli.load(stream)["excerpt"]
    bad = [entry["id"] for entry in posted if claimed(entry["log"].splitlines())]
    print(f"healthy excerpts: {len(posted) - len(bad)} of {len(posted)} without a claim"
          + "".join(f"; claimed: {name}" for name in bad))
    return bad


def main() -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="*", metavar="LOG", help="more logs of healthy servers")
    logs = parser.parse_args().logs
    wrong = [entry for file in FILES for entry in table(file)]
    told()
    return 1 if wrong + healthy([*HEALTHY, *logs]) + excerpts() else 0


if __name__ == "__main__":
    raise SystemExit(main())
