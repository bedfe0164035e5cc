"""``pin``: what was judged good goes into the recipe with its evidence, or nothing does."""

from __future__ import annotations

import json
from pathlib import Path

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


def judged(cache: Path, *, good: Status = Status.PASS, verdict: Verdict = Verdict.GOOD) -> Record:
    record = full_record(cell="cpu-0.30.0", started="2026-11-22T03:00:00Z", diagnosis=(),
                         checks=(Check(check="boot", status=good),))
    path = cache / RECORD
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record.document()))
    found = Bisection(question=QUESTION, versions=("0.29.0", "0.30.0", "0.31.0"))
    save(cache, found.with_step(Step(version="0.30.0", verdict=verdict, record=RECORD,
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
