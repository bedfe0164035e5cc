"""How many failures of the field are named? `python -m benchmarks.diagnose`.

Reads the entries of tests/fixtures/field_failures.toml and prints, by kind of failure, how many are
named rightly, wrongly or not at all. Ends with 1 where one is named wrongly, or where a harmless or
a context line is claimed as a cause.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import tomli

from builder.diagnosis.catalogue import load
from builder.diagnosis.matching import diagnose

FIELD = Path(__file__).parents[1] / "tests" / "fixtures" / "field_failures.toml"


def entries() -> list[dict[str, Any]]:
    """Return the failures of the field."""
    with FIELD.open("rb") as file:
        failures: list[dict[str, Any]] = tomli.load(file)["failure"]
    return failures


def outcome(entry: dict[str, Any]) -> str:
    """Return whether an entry is named "right", "wrong" or "none"; the first name counts."""
    claimed = [item.issue.name for item in diagnose(entry["log"].splitlines(), load())
               if item.claimed]
    if not claimed:
        return "none"
    return "right" if claimed[0] == entry["named"] else "wrong"


def main() -> int:
    """Count and print."""
    counts: dict[str, Counter[str]] = {}
    wrong = []
    for entry in entries():
        kind = entry["kind"] if entry["lines"] == "literal" else f"({entry['lines']} lines)"
        result = outcome(entry)
        counts.setdefault(kind, Counter())[result] += 1
        wrong += [entry["id"]] if result == "wrong" else []
    print(f"{'kind':18} {'right':>6} {'wrong':>6} {'none':>6}")
    for kind, count in sorted(counts.items()):
        print(f"{kind:18} {count['right']:6} {count['wrong']:6} {count['none']:6}")
    literal = sum((count for kind, count in counts.items() if kind[0] != "("), Counter[str]())
    print(f"literal: {literal['right']} of {literal.total()} right "
          f"({literal['right'] / literal.total():.0%}), {literal['wrong']} wrong; "
          f"named wrongly: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
