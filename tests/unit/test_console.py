"""Narration goes to standard error, documents to standard output, whole and unchanged."""

from __future__ import annotations

import json

import pytest

from builder import console
from builder.errors import ConfigError, Problem, UsageError


def test_a_document_is_the_only_thing_on_standard_output(
        capsys: pytest.CaptureFixture[str]) -> None:
    console.info("narration")
    console.warn("careful")
    console.document({"ä": [1]})
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"ä": [1]}
    assert captured.err == "narration\nwarning: careful\n"


def test_table_lines_are_never_folded_and_brackets_are_text(
        capsys: pytest.CaptureFixture[str]) -> None:
    console.table("", ["a", "b"], [["x" * 300, "[red]b[/red]"], ["y", ""]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "x" * 300 + "  [red]b[/red]"
    assert lines[2] == "y"


def test_a_table_without_rows_shows_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    console.table("nothing", ["a", "b"], [], stderr=True)
    assert capsys.readouterr().err == "nothing\na  b\n"


def test_an_error_shows_what_where_and_next(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_error(UsageError("bad [word]", where="here", next_step="do this"))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["error: bad [word]", "  where: here", "  next:  do this"]


def test_every_problem_of_a_file_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_error(ConfigError("f", [Problem("a.b", "bad", "good"), Problem("c", "worse")]))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["error: 2 errors in f", "  a.b: bad  -> good", "  c: worse"]


@pytest.mark.parametrize(("count", "text"), [
    (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_600_000_000, "1.6 GB"),
    (250_000_000, "250 MB"), (7_300_000_000_000, "7300 GB")])
def test_sizes(count: int, text: str) -> None:
    assert console.size(count) == text


@pytest.mark.parametrize(("count", "text"), [
    (0.04, "0.0 s"), (59.94, "59.9 s"), (60, "1 min 00 s"), (245, "4 min 05 s")])
def test_durations(count: float, text: str) -> None:
    assert console.seconds(count) == text


def test_progress_without_a_terminal_counts_and_says_what_runs(
        capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress("fetching", 10) as meter:
        meter.advance(4)
        meter.advance(6)
    assert meter.done == 10
    assert capsys.readouterr().err == "fetching …\n"


def test_details_show_only_when_asked_for(
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_verbose", False)
    console.debug("hidden")
    console.set_verbose(True)
    console.debug("shown")
    assert capsys.readouterr().err == "shown\n"
