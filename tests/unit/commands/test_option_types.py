"""What options share: which numbers are read, and which options do nothing beside another."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from builder import cli
from builder.commands.option_types import (
    file_or_name,
    folder_or_name,
    key_or_identity,
    refuse_beside,
    user_path,
    user_path_text,
    whole_number,
)
from builder.errors import UsageError
from builder.files import CALLER

MATRIX = str(Path(__file__).parents[3] / "matrix.toml")


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("7", 7), ("007", 7), ("90", 90)])
def test_a_number_in_its_span_is_read(text: str, number: int) -> None:
    assert whole_number(0, 90)(text) == number


@pytest.mark.parametrize("text", [
    "-1", "91", "1.5", "1e1", "+1", " 1", "1_0", "x", "", "nan", "٣", "²", "9" * 5000])
def test_anything_else_is_refused_with_the_span(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number from 0 to 90"):
        whole_number(0, 90)(text)


def test_an_identity_is_a_word_wherever_the_command_was_typed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CALLER, str(tmp_path))
    assert key_or_identity("identity") == Path("identity")
    assert key_or_identity("cosign.key") == tmp_path / "cosign.key"
    assert key_or_identity("./identity") == tmp_path / "identity"


@pytest.mark.parametrize("words", [
    "recipe check R --roofline", "recipe check --memory --cell cpu", "stop R --all",
    "gate cpu --explain symbol-missing", "gate --explain symbol-missing --json",
    "diagnose server.log --list", "diagnose --explain x --list", "promote cpu --log --reason why",
    "tags cpu --yes", "cache show --all", "cache --days 0",
    "plan cpu --schema", "recipe show tiny-gemma4 --nodes 2",
    "bench cpu --url http://127.0.0.1:1 --image x"])
def test_an_option_that_would_do_nothing_is_refused(
        words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--matrix", MATRIX, *words.split()]) == 2
    shown = capsys.readouterr().err
    assert "next:" in shown
    assert any(said in shown for said in (
        " would do nothing beside ", "nothing is removed without --prune", "one machine"))


def test_two_forms_of_one_output_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.run(["--matrix", MATRIX, "recipe", "show", "R", "--json", "--format", "compose"])
    assert "not allowed with argument --json" in capsys.readouterr().err


def test_what_is_not_given_is_not_refused() -> None:
    refuse_beside(argparse.Namespace(a=None, b=False, c=[], d=""), "--x", a="A", b="B", c="C",
                  d="D")
    with pytest.raises(UsageError, match=r"^A, --b would do nothing beside --x"):
        refuse_beside(argparse.Namespace(a=["1"], b=0.0, c=None), "--x", a="A", b="--b", c="C")


def test_a_relative_path_begins_where_the_command_was_typed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CALLER, raising=False)
    assert user_path("x/y") == Path("x/y")
    monkeypatch.setenv(CALLER, str(Path.cwd()))
    assert user_path("x/y") == Path("x/y"), "a message shows what was typed"
    monkeypatch.setenv(CALLER, str(tmp_path))
    assert user_path("x/y") == tmp_path / "x" / "y"
    assert user_path("/x") == Path("/x")
    assert user_path_text("-") == "-", "standard input or output"
    assert user_path_text("") == ""


def test_what_may_be_a_file_or_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CALLER, str(tmp_path))
    (tmp_path / "cpu").mkdir()
    (tmp_path / "record.json").touch()
    assert file_or_name("record.json") == str(tmp_path / "record.json")
    assert file_or_name("cpu") == "cpu", "a cell, and not the folder that is called so"
    assert file_or_name("./cpu") == str(tmp_path / "cpu")
    assert file_or_name("20260102") == "20260102"
    assert folder_or_name("cpu") == str(tmp_path / "cpu")
    assert folder_or_name("google/gemma") == "google/gemma", "a repository of the hub"
    assert file_or_name("x" * 5000) == "x" * 5000
