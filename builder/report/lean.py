"""What a lean closure saved, as one table by wheel: before, after, and by which rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from builder import console
from builder.lean.stage import Saved

SHOWN = 12  # wheels in the table; the rest is one row


def savings_rows(saved: Iterable[Saved], shown: int = SHOWN) -> list[tuple[str, str, str, str]]:
    """Return a row a wheel, the largest saving first, the rest and the sum as one row each."""
    changed = sorted((each for each in saved if each.wheel), key=lambda each: -each.saved)
    rows = [_row(each.name, each.before, each.after, each.by_rule) for each in changed[:shown]]
    for name, group in ((f"{len(changed) - shown} more wheels", changed[shown:]),
                        ("sum", changed)):
        rules: Counter[str] = Counter()
        for each in group:
            rules.update(each.by_rule)
        if group:
            rows.append(_row(name, sum(each.before for each in group),
                             sum(each.after for each in group), rules))
    return rows


def show_savings(saved: Iterable[Saved]) -> None:
    """Print the table as narration."""
    rows = savings_rows(saved)
    if rows:
        console.table("", ("wheel", "before", "after", "left out"), rows, stderr=True)


def _row(name: str, before: int, after: int, rules: Mapping[str, int]
         ) -> tuple[str, str, str, str]:
    ordered = sorted(rules.items(), key=lambda item: -item[1])
    left_out = ", ".join(f"{rule} {console.size(count)}" for rule, count in ordered if count)
    return name, console.size(before), console.size(after), left_out
