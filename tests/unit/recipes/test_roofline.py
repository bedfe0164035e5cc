"""The bound of the memory bus, and which published figures it explains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from builder.errors import ConfigError
from builder.recipes.load import load_recipe, recipe_names
from builder.recipes.model_facts import Shape, facts_of
from builder.recipes.roofline import Figures, Format, Row, Verdict, judge, lines, load_figures

ROOT = Path(__file__).parents[3]
SOURCE = "https://example.org/figures"
FORMATS = {"bf16": Format(attention=16, dense=16),
           "mixed": Format(attention=16, dense=16, experts=4)}


def row(tok_s: float, up_to: float | None = None, **changed: Any) -> Row:
    return Row(**{"model": "31B", "format": "bf16", "tok_s": tok_s, "up_to": up_to,
                  "source": SOURCE, **changed})


def figures(*rows: Row) -> Figures:
    return Figures(format=FORMATS, row=rows, active_experts=8, models={
        "31B": "google/gemma-4-31B-it", "26B": "google/gemma-4-26B-A4B-it"})


def shape(name: str = "google/gemma-4-31B-it") -> Shape:
    facts = facts_of(ROOT, name)
    assert facts is not None
    assert facts.shape is not None
    return facts.shape


def bound(made: Row) -> float:
    return figures().bound(made, shape("google/gemma-4-26B-A4B-it" if made.model == "26B" else
                                       "google/gemma-4-31B-it"))


def test_the_bound_is_bandwidth_by_bytes_of_a_token() -> None:
    assert bound(row(1)) == pytest.approx(4.4, abs=0.05)  # as the sources have it
    assert bound(row(1, nodes=2)) == pytest.approx(2 * bound(row(1)))
    assert bound(row(1, gbs=3350)) == pytest.approx(bound(row(1)) * 3350 / 273)


def test_requests_share_the_dense_weights_and_draw_experts_of_their_own() -> None:
    assert bound(row(1, requests=4)) == pytest.approx(4 * bound(row(1)))
    one, many = (bound(row(1, model="26B", requests=count)) for count in (1, 8))
    assert one < many < 8 * one
    assert bound(row(1, model="26B", format="mixed")) > one


@pytest.mark.parametrize(("made", "verdict"), [
    (row(3.7), Verdict.EXPLAINED), (row(3.0, 4.4), Verdict.EXPLAINED),
    (row(2.0), Verdict.SLOWER), (row(2.0, 4.0), Verdict.SLOWER),
    (row(5.0), Verdict.FASTER), (row(3.0, 4.5), Verdict.FASTER),
    (row(9.0, drafted=4), Verdict.DRAFTED),
])
def test_verdicts(made: Row, verdict: Verdict) -> None:
    assert judge(made, bound(made)) is verdict


def test_a_line_has_bound_figure_error_and_source() -> None:
    made = row(2.2, 3.7, what="w", comment="c")
    assert next(lines(figures(made), ROOT)) == [
        "31B", "bf16", "1 x Spark", "1", "w", "4.4", "2.2 to 3.7", "-50% to -16%",
        "not explained: slower (c)", SOURCE]


def test_names_that_nothing_is_said_of_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="nothing is said of fp8"):
        figures(row(1, format="fp8"))
    with pytest.raises(ValidationError, match="nothing is said of 7B"):
        figures(row(1, model="7B"))
    with pytest.raises(ConfigError, match="there are no facts of this model"):
        list(lines(figures(row(1)), tmp_path))


def test_what_the_bus_cannot_explain_has_a_comment() -> None:
    verdicts = {line[8] for line in lines(load_figures(), ROOT)}
    assert "not explained: slower" not in verdicts
    assert any(verdict.startswith("not explained: slower (") for verdict in verdicts)
    assert not any(verdict.startswith("not explained: faster") for verdict in verdicts)


def test_every_decode_figure_of_a_recipe_on_a_spark_has_a_row() -> None:
    known = [(row.source, row.tok_s, row.up_to or row.tok_s) for row in load_figures().row]
    missing = [(name, figure.value) for name in recipe_names(ROOT)
               for figure in load_recipe(ROOT, name).published
               if figure.metric == "decode" and "GB10" in figure.hardware
               and not any(source == figure.source and low <= figure.value <= high
                           for source, low, high in known)]
    assert missing == []


SEEDS = (3.7, 6.5, 10.6, 6.93, 6.79, 6.24, 6.3, 11.2, 13.93, 27.43, 6.8, 6.9, 23.7, 23.3, 38, 36,
         57, 36.9, 53.7, 60, 88, 108, 51.6, 51.0, 48.2, 114.6, 40, 408, 745, 284)


@pytest.mark.parametrize("value", SEEDS)
def test_every_figure_of_the_sources_is_there(value: float) -> None:
    assert any(value in (row.tok_s, row.up_to) for row in load_figures().row)
