"""The table of savings: the largest first, the rest and the sum as one row each."""

from __future__ import annotations

from builder.lean.stage import Saved
from builder.locking.lock import LockedWheel
from builder.report.lean import SHOWN, savings_rows

WHEEL = LockedWheel(name="w", version="1", file="w.whl", sha256="0" * 64, size=1, index="default")


def saved(name: str, before: int, after: int) -> Saved:
    return Saved(name=name, before=before, after=after, wheel=WHEEL,
                 by_rule={"debug symbols": before - after})


def test_the_largest_saving_comes_first_and_the_sum_last() -> None:
    rows = savings_rows([saved("small", 10, 5), saved("large", 2000, 1000),
                         Saved(name="whole", before=0, after=0)])
    assert [row[0] for row in rows] == ["large", "small", "sum"]
    assert rows[0] == ("large", "2.0 kB", "1.0 kB", "debug symbols 1.0 kB")
    assert rows[-1][1:3] == ("2.0 kB", "1.0 kB")


def test_a_long_table_is_cut_and_says_how_many_are_left() -> None:
    rows = savings_rows([saved(f"w{number}", 1000 + number, 1) for number in range(SHOWN + 3)])
    assert rows[SHOWN][0] == "3 more wheels"
    assert len(rows) == SHOWN + 2


def test_nothing_saved_is_no_table() -> None:
    assert savings_rows([Saved(name="whole", before=0, after=0)]) == []
