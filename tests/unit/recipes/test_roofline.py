"""The bound of the memory bus, and which published figures it explains."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from builder.recipes.load import load_recipe, recipe_names
from builder.recipes.roofline import Figures, Row, Verdict, judge, lines, load_figures

ROOT = Path(__file__).parents[3]
SOURCE = "https://example.org/figures"


def row(tok_s: float, up_to: float | None = None, *, nodes: int = 1, drafted: int = 0) -> Row:
    return Row(model="m", active_billion=31.0, format="bf16", tok_s=tok_s, up_to=up_to,
               nodes=nodes, drafted=drafted, source=SOURCE)


def figures(*rows: Row) -> Figures:
    return Figures(bits={"bf16": 16}, row=rows)


def test_the_bound_is_bandwidth_by_bytes_of_a_token() -> None:
    assert figures().bound(row(1)) == pytest.approx(4.4, abs=0.01)  # as the sources have it
    assert figures().bound(row(1, nodes=2)) == pytest.approx(8.8, abs=0.01)


@pytest.mark.parametrize(("made", "verdict"), [
    (row(3.7), Verdict.EXPLAINED), (row(3.0, 4.4), Verdict.EXPLAINED),
    (row(2.0), Verdict.SLOWER), (row(2.0, 4.0), Verdict.SLOWER),
    (row(5.0), Verdict.FASTER), (row(3.0, 4.5), Verdict.FASTER),
    (row(9.0, drafted=4), Verdict.DRAFTED),
])
def test_verdicts(made: Row, verdict: Verdict) -> None:
    assert judge(made, figures().bound(made)) is verdict


def test_a_line_has_bound_figure_error_and_source() -> None:
    assert next(lines(figures(row(2.2, 3.7)))) == [
        "m", "bf16", "1", "4.4", "2.2 to 3.7", "-50% to -16%", "not explained: slower", SOURCE]


def test_a_format_without_bits_is_refused() -> None:
    with pytest.raises(ValidationError, match="no bits for the formats bf16"):
        Figures(bits={"fp8": 8}, row=(row(1),))


def test_what_the_bus_cannot_explain_has_a_comment() -> None:
    loaded = load_figures()
    unexplained = [row for row in loaded.row if judge(row, loaded.bound(row)) is Verdict.SLOWER]
    assert unexplained
    assert all(row.comment for row in unexplained)
    assert Verdict.FASTER not in {judge(row, loaded.bound(row)) for row in loaded.row}


def test_every_decode_figure_of_a_recipe_on_a_spark_has_a_row() -> None:
    known = {(row.source, value) for row in load_figures().row for value in (row.tok_s, row.up_to)}
    missing = [(name, figure.value) for name in recipe_names(ROOT)
               for figure in load_recipe(ROOT, name).published
               if figure.metric == "decode" and "GB10" in figure.hardware
               and (figure.source, figure.value) not in known]
    assert missing == []
