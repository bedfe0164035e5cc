"""The command line: one exit code for each kind of error, and never a traceback."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from builder import cli, errors, process


def command(action: Callable[[argparse.Namespace], int]) -> SimpleNamespace:
    def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        stages.add_parser("plan").set_defaults(execute=action)

    return SimpleNamespace(add_parser=add_parser)


def run(monkeypatch: pytest.MonkeyPatch, action: Callable[[argparse.Namespace], int]) -> int:
    monkeypatch.setattr(cli, "importlib",
                        SimpleNamespace(import_module=lambda name: command(action)))
    return cli.run(["plan"])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path))


@pytest.mark.parametrize(("error", "code"), [
    (errors.VerdictError("x"), 1),
    (errors.UsageError("x"), 2),
    (errors.ConfigError("f", [errors.Problem("a", "b")]), 2),
    (errors.LockError("x"), 3),
    (errors.NetworkError("x"), 4),
    (errors.IntegrityError("x", expected="a", actual="b"), 4),
    (errors.EngineError("x"), 5),
    (errors.DiskError("x"), 5),
    (errors.PatchError("x"), 6),
    (errors.InternalError("x"), 7),
    (ZeroDivisionError("x"), 7),
    (BrokenPipeError("a child's pipe, not our reader's"), 7),
    (RecursionError(), 2),
    (MemoryError(), 5),
    (OSError(errno.ENOSPC, "No space left on device"), 5),
    (PermissionError(errno.EACCES, "Permission denied", "/x"), 2),
    (OSError(errno.EROFS, "Read-only file system", "/x"), 2),
    (KeyboardInterrupt(), 130),
])
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                    error: BaseException, code: int) -> None:
    def fail(_: argparse.Namespace) -> int:
        raise error

    assert run(monkeypatch, fail) == code
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert len([line for line in shown.splitlines() if line.startswith(("error:", "warn"))]) == 1


@pytest.mark.parametrize("code", [0, 1])
def test_a_verdict_is_the_exit_code(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    assert run(monkeypatch, lambda _: code) == code


@pytest.mark.parametrize("words", [[], ["--no-such-option", "plan"], ["plan", "--no-such-option"]])
def test_a_wrong_command_line_ends_with_2(words: list[str],
                                          capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.run(words)
    assert caught.value.code == 2
    assert "usage: sparkyard" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "next_step"), [
    (["serv", "status"], 'perhaps you meant "serve"'),
    (["--matrix", "plan", "-v", "lokc", "plan"], 'perhaps you meant "lock"'),
    (["xyzxyz", "plan"], f"one of {', '.join(sorted(cli.COMMANDS))}")])
def test_a_wrong_command_is_named_with_all_that_there_are(
        words: list[str], next_step: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words) == 2
    wrong = next(word for word in words if word in ("serv", "lokc", "xyzxyz"))
    assert capsys.readouterr().err == (f'error: there is no command "{wrong}"\n'
                                       f"  where: command line\n  next:  {next_step}\n")


@pytest.mark.parametrize("words", [["--help"], ["--help", "plan"], ["-h", "plan"]])
def test_the_help_of_the_program_lists_every_command(
        words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.run(words)
    assert caught.value.code == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()
              if line.startswith("    ") and line.strip()]
    assert {*cli.COMMANDS} <= {*listed}


@pytest.mark.parametrize(("words", "usage"), [
    (["doctor", "x"], "doctor [-h]"), (["recipe", "list", "x", "y"], "recipe list [-h]"),
    (["plan", "--no-such"], "plan [-h]")])
def test_a_word_too_many_gets_the_usage_of_its_command(
        words: list[str], usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.run(words)
    shown = capsys.readouterr().err
    assert shown.startswith(f"usage: sparkyard {usage}")
    assert "unrecognized arguments: " in shown


@pytest.mark.parametrize(("words", "name"), [
    (["plan", "lock"], "plan"), (["--matrix", "lock", "plan"], "plan"), ([], ""),
    (["--matrix=lock", "--verbose", "plan"], "plan"), (["--matrix"], ""), (["-x", "plan"], ""),
    (["--matr", "m.toml", "plan"], "")])
def test_which_word_is_the_command(words: list[str], name: str) -> None:
    assert cli.command_in(words) == name


def test_a_path_begins_where_the_command_was_typed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    """./nox says where that was; the programs that a command starts are not told."""
    (tmp_path / "log1").write_text("INFO 11-21 10:00:00 started\n" * 3)
    monkeypatch.setenv("SPARKYARD_CALLER_FOLDER", str(tmp_path))
    assert cli.run(["diagnose", "log1"]) == 0
    assert "SPARKYARD_CALLER_FOLDER" not in os.environ
    assert cli.run(["diagnose", "log1"]) == 2
    assert "No such file" in capsys.readouterr().err


def test_every_path_of_every_command_begins_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option that takes a file or a folder has a reader that knows where it was typed."""
    monkeypatch.setenv("SPARKYARD_CALLER_FOLDER", "/typed/here")
    kinds = ("FILE", "DIR", "KEY", "LOG", "RECORD")
    taken = [action for parser in parsers(cli.parser()) for action in parser._actions
             if action.metavar in kinds and action.dest != "matrix"]
    assert len(taken) > 25
    for action in taken:
        assert callable(action.type), action.dest
        assert str(action.type("./x")) in ("/typed/here/x", "/typed/here/./x"), action.dest


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.COMMANDS:
        with pytest.raises(SystemExit) as caught:
            cli.run([name, "--help"])
        assert caught.value.code == 0
        assert f"usage: sparkyard {name}" in capsys.readouterr().out


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from parsers(child)


@pytest.mark.parametrize("parser", list(parsers(cli.parser())), ids=lambda parser: parser.prog)
def test_every_help_has_a_sentence_and_no_markup(parser: argparse.ArgumentParser) -> None:
    assert parser.description
    assert parser.description.rstrip().endswith(".")
    assert "``" not in parser.format_help()
    assert all(action.help for action in parser._actions if action.option_strings)


def test_a_reader_that_went_away_is_no_error() -> None:
    matrix = Path(__file__).parents[2] / "matrix.toml"
    command = f"{sys.executable} -m builder --matrix {matrix} plan | true; echo ${{PIPESTATUS[0]}}"
    done = process.run(["bash", "-c", command], cwd=matrix.parent)
    assert done.stdout == "0\n"
    assert "Traceback" not in done.stderr


def test_a_missing_matrix_is_one_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--matrix", "/nowhere/matrix.toml", "plan"]) == 2
    assert "there is no version matrix" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "where"), [
    (["rollback", "cpu", "--reason", ""], "--reason"),
    (["rollback", "cpu", "--reason", " \n"], "--reason"),
    (["rollback", "cpu", "--reason="], "--reason"),
    (["rollback", "cpu", "--to", ""], "--to"),
    (["promote", "cpu", "--image", ""], "--image"),
    (["promote", "", "--log"], "command line"),
    (["smoke", "cpu", "--model", ""], "--model"),
    (["site", "--output=", "--tags"], "--output"),
    (["logs", "-n", ""], "-n"),
])
def test_an_empty_argument_is_refused_not_taken_as_none(
        words: list[str], where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words) == 2
    shown = capsys.readouterr().err
    assert "this argument is empty" in shown
    assert where in shown


def test_arguments_that_hold_something_are_not_refused() -> None:
    cli.refuse_empty(["diagnose", "-", "--", "--json", "--reason=a b", "-n", "0"])
