"""Narration goes to standard error, documents to standard output, whole and unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable

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


def test_on_a_terminal_table_lines_are_never_folded_or_cut(
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console.OUT, "_force_terminal", True)
    console.table("", ["a", "b"], [["x" * 300, "[red]b[/red]"], ["y", ""]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "x" * 300 + "  [red]b[/red]"
    assert lines[2] == "y"


def test_elsewhere_a_table_is_cut_to_a_width_and_says_so(
        capsys: pytest.CaptureFixture[str]) -> None:
    console.table("", ["check", "seen", "digest"],
                  [["boot", "x" * 400, "sha256:" + 64 * "f"], ["text", "short", ""]])
    *lines, note = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= console.TABLE_WIDTH
    assert "x …  sha256:" + 64 * "f" in lines[1]
    assert note.startswith("(what ends in … was cut")


def test_a_table_that_fits_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    console.table("", ["a", "b"], [["x" * 150, "y"]])
    assert capsys.readouterr().out.splitlines()[1] == "x" * 150 + "  y"


def test_a_cell_of_two_lines_stays_in_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    console.table("", ["a", "b"], [["one\ntwo", "x"]])
    assert capsys.readouterr().out.splitlines()[1] == "one two  x"


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp https://me:hunter22@host/?sig=1 hf_0123456789"


@pytest.mark.parametrize("show", [
    console.info, console.warn, console.debug, console.out,
    lambda text: console.table(text, ["a"], [[text]]),
    lambda text: console.table("", [text], [], stderr=True),
    lambda text: console.show_error(UsageError(text, where=text, next_step=text)),
    lambda text: console.show_error(ConfigError(text, [Problem(text, text, text)])),
    console.document, lambda text: console.document({text: [text]}),
], ids=("info", "warn", "debug", "out", "table", "head", "error", "config", "document", "key"))
def test_foreign_text_cannot_act_and_holds_no_secret(
        show: Callable[[str], None], capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_verbose", True)
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    show(HOSTILE)
    shown = "".join(capsys.readouterr())
    assert shown.replace("\n", "").isprintable()
    assert "owned" in shown
    assert "hunter22" not in shown
    assert "hf_0123456789" not in shown


def test_a_program_reads_the_same_text_from_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    text = "a\x1b[2J\x9b\u202e\U000e0041\n\tü"
    console.document([text])
    assert json.loads(capsys.readouterr().out) == [text]


def test_a_reader_that_went_away_is_told_from_other_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: str) -> int:
        raise BrokenPipeError
    monkeypatch.setattr("sys.stdout.write", gone, raising=False)
    with pytest.raises(console.ReaderGoneError):
        console.out("x")


def test_a_table_without_rows_shows_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    console.table("nothing", ["a", "b"], [], stderr=True)
    assert capsys.readouterr().err == "nothing\na  b\n"


def test_an_error_shows_what_where_and_next(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_error(UsageError("bad [word]", where="here", next_step="do this"))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["error: bad [word]", "  where: here", "  next:  do this"]


def test_no_line_of_a_foreign_text_stands_where_ours_begin(
        capsys: pytest.CaptureFixture[str]) -> None:
    console.show_error(UsageError("bad\nPASSED: x\n\n  fine", where="a\nerror: y",
                                  next_step="b\rc"))
    console.show_error(ConfigError("f", [Problem("a\n  next: z", "bad\n::add-mask::x")]))
    console.warn("one\nPASSED: w")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["error: bad", "  PASSED: x", "", "  fine", r"  where: a\nerror: y",
                     r"  next:  b\rc", "error: 1 error in f",
                     r"  a\n  next: z: bad\n::add-mask::x", "warning: one", "  PASSED: w"]


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


def test_a_name_with_colons_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    console.info("c:v: and x:bug: stay")
    console.table("", ["image:v:"], [["r/x:bug:"]])
    shown = capsys.readouterr()
    assert shown.err == "c:v: and x:bug: stay\n"
    assert shown.out == "image:v:\nr/x:bug:\n"
