"""``bisect``: the least number of judgements, saved after each, evidence at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builder import cli
from builder.bisection.search import Verdict
from builder.bisection.state import Step
from builder.commands import bisect
from builder.commands.bisect import between
from builder.errors import NetworkError, UsageError

MATRIX = str(Path(__file__).parents[3] / "matrix.toml")
OFFERED = ("0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0")
WORDS = ("--matrix", MATRIX, "bisect", "tiny-gemma4", "--good", "0.29.0", "--bad", "0.32.0")


class Planted:
    """A judge with a planted break; ``stops`` is the call that the network cuts off."""

    def __init__(self, first_bad: str, stops: int = 0, skips: Sequence[str] = ()) -> None:
        self.first_bad, self.stops, self.skips = first_bad, stops, skips
        self.asked: list[str] = []

    def __call__(self, version: str) -> Step:
        self.asked.append(version)
        if len(self.asked) == self.stops:
            raise NetworkError("cut off")
        if version in self.skips:
            return Step(version=version, verdict=Verdict.SKIPPED, diagnosis="no lock")
        bad = version >= self.first_bad
        return Step(version=version, verdict=Verdict.BAD if bad else Verdict.GOOD,
                    record=f"records/{version}.json", diagnosis="boot" if bad else "")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bisect.Engine, "connect", lambda: SimpleNamespace(
        info=SimpleNamespace(platform="linux/amd64")))
    monkeypatch.setattr(bisect, "released", lambda *_, **__: OFFERED)

    def plant(judge: Planted) -> Planted:
        monkeypatch.setattr(bisect, "Judge", lambda *_: judge)
        return judge
    return plant


def test_four_versions_take_two_judgements_and_end_in_a_table(
        planted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    judge = planted(Planted("0.31.0"))
    assert cli.run(WORDS) == 0
    assert judge.asked == ["0.30.0", "0.31.0"]
    page = capsys.readouterr().out
    assert "first bad: 0.31.0; last good: 0.30.0; 2 smoke tests of 4 versions" in page
    assert "records/0.30.0.json" in page
    assert "good, as named" in page


def test_a_search_that_was_cut_off_goes_on_where_it_was(
        planted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    planted(Planted("0.31.0", stops=2))
    assert cli.run(WORDS) == NetworkError.exit_code
    judge = planted(Planted("0.31.0"))
    assert cli.run(WORDS) == 0
    assert judge.asked == ["0.31.0"]
    assert "going on: 1 of 4 versions are judged" in capsys.readouterr().err
    judge = planted(Planted("0.31.0"))
    assert cli.run([*WORDS, "--restart"]) == 0
    assert judge.asked == ["0.30.0", "0.31.0"]


def test_where_the_boundary_is_skipped_all_suspects_are_named_with_code_one(
        planted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    planted(Planted("0.31.0", skips=["0.30.0", "0.31.0"]))
    assert cli.run([*WORDS, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["suspects"] == ["0.30.0", "0.31.0", "0.32.0"]
    assert (document["last_good"], document["judged"]) == ("0.29.0", 0)


def test_the_ends_are_judged_where_it_is_asked_for(
        planted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    judge = planted(Planted("0.30.0"))
    assert cli.run([*WORDS, "--verify"]) == 0
    assert judge.asked == ["0.29.0", "0.32.0", "0.30.0"]
    planted(Planted("0.29.0"))
    assert cli.run([*WORDS, "--verify", "--restart"]) == 1
    assert "0.29.0 is named as good and is bad" in capsys.readouterr().err


def test_the_range_runs_from_the_good_version_to_the_bad_one() -> None:
    assert between(OFFERED, "0.29.0", "0.31.0") == ("0.29.0", "0.30.0", "0.31.0")
    assert between(OFFERED, "0.31", "0.29") == ("0.31.0", "0.30.0", "0.29.0")


@pytest.mark.parametrize(("good", "bad", "words"), [
    ("0.27.0", "0.32.0", "no index has a wheel of 0.27.0"), ("x", "0.32.0", "Invalid version"),
    ("0.32.0", "0.32.0", "are the same")])
def test_wrong_ends_are_refused(good: str, bad: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        between(OFFERED, good, bad)
