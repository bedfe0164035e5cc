"""``sparkyard engine``: the list of changes, and that nothing happens without a yes."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hosts_for_tests import WORKING

from builder.cli import run
from builder.commands import engine
from builder.host.plan import Host

BARE = replace(WORKING, engine=None, registry=False)


@pytest.fixture
def performed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put a machine without engine and registry in place; return what is done to it."""
    done: list[str] = []

    def perform(steps: tuple[object, ...], host: Host) -> None:
        assert host is BARE
        done.extend(step.title for step in steps)  # type: ignore[attr-defined]

    monkeypatch.setattr(engine, "detect", lambda *_: WORKING if done else BARE)
    monkeypatch.setattr(engine, "perform", perform)
    return done


def test_a_dry_run_lists_the_changes_and_makes_none(
        performed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["engine", "--dry-run"]) == 0
    assert performed == []
    said = capsys.readouterr()
    assert "changes to this machine:" in said.err
    assert "start the Docker engine" in said.err
    assert "missing" in said.out


def test_with_yes_the_changes_are_made_and_the_result_is_shown(
        performed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["engine", "--yes"]) == 0
    assert "start the Docker engine" in performed
    assert "missing" not in capsys.readouterr().out


def test_without_a_terminal_nothing_is_done(
        performed: list[str], monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert run(["engine"]) == 2
    assert performed == []
    assert "./nox -s engine -- --yes" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 2), ("", 2)])
def test_on_a_terminal_the_user_decides(
        performed: list[str], monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)
    assert run(["engine"]) == code
    assert bool(performed) is (code == 0)


def test_a_machine_that_has_everything_is_left_alone(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(engine, "detect", lambda *_: WORKING)
    monkeypatch.setattr(engine, "perform", lambda *_: pytest.fail("nothing is missing"))
    assert run(["engine"]) == 0
    assert "nothing to change" in capsys.readouterr().err


def test_a_wrong_registry_of_the_environment_is_refused_and_not_left_out(
        performed: list[str], monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SPARKYARD_REGISTRY", "UPPER/x")
    assert run(["engine", "--yes"]) == 2
    assert performed == []
    assert "SPARKYARD_REGISTRY" in capsys.readouterr().err
