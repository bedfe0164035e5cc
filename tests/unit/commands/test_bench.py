"""``sparkyard bench``: what is refused before a server is started, and a found server's record."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from builder import cli
from builder.bench import run as bench_run
from builder.commands.bench import grid_of
from builder.record.bench import Bench
from builder.record.models import Record
from builder.record.reader import image_passed, read_record
from tests.unit.bench.test_run import ANSWERS, HOST, measured, serving
from tests.unit.bench_results import a_bench, a_series
from tests.unit.record.test_models import a_record, keep

ROOT = Path(__file__).parents[3]
MATRIX = str(ROOT / "matrix.toml")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bench_run, "tool_python", lambda *_: Path("python"))


def bench(*words: str) -> int:
    return cli.run(["--matrix", MATRIX, "bench", "cpu", *words])


def written(folder: Path, bench: Bench | None, name: str = "baseline") -> str:
    record = a_record(level="bench").model_copy(update={"bench": bench, "host": HOST})
    path = folder / f"{name}.json"
    path.write_text(json.dumps(record.document()))
    return str(path)


def stand_in(monkeypatch: pytest.MonkeyPatch, decode: list[float]) -> None:
    monkeypatch.setattr(bench_run, "measure", lambda *_: measured(decode))


def test_a_found_server_is_measured_and_never_shown_as_a_spark(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    stand_in(monkeypatch, [7.0, 7.01, 6.99])
    file = tmp_path / "out.json"
    with serving(ANSWERS) as url:
        assert bench("--url", url, "--hardware", "my Spark", "--quick", "--json", str(file)) == 0
    said = capsys.readouterr().out
    assert 'measured on hardware that Sparkyard has not seen (stated as "my Spark")' in said
    assert "not figures of a DGX Spark" in said
    assert "7 " in said
    record = read_record(file)
    assert (record.level, record.where, record.gb10) == ("bench", "unseen", False)
    assert record.bench
    assert record.bench.conditions.serve is None


def test_a_slower_server_ends_with_1_and_a_like_one_with_0(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    baseline = str(tmp_path / "first.json")
    with serving(ANSWERS) as url:
        stand_in(monkeypatch, [7.0, 7.01, 6.99])
        assert bench("--url", url, "--json", baseline) == 0
        assert bench("--url", url, "--baseline", baseline) == 0
        stand_in(monkeypatch, [6.4, 6.41, 6.39])
        assert bench("--url", url, "--baseline", baseline) == 1
        assert "SLOWER decode pp128 tg32 (c1): -8.6 %" in capsys.readouterr().out
        assert bench("--url", url, "--hardware", "another", "--baseline", baseline) == 2
    assert "other conditions" in capsys.readouterr().err


def test_the_record_goes_to_stdout_alone(monkeypatch: pytest.MonkeyPatch,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    stand_in(monkeypatch, [7.0, 7.01])
    with serving(ANSWERS) as url:
        assert bench("--url", url, "--json", "-") == 0
    assert Record.model_validate_json(capsys.readouterr().out).bench


@pytest.mark.parametrize(("words", "said"), [
    (["--recipe", "nobody"], "no recipe"),
    (["--pp", "8192", "--tg", "32"], "no point of the grid fits in the server's context of "),
    (["--tokenizer", "/no/such/folder"], "there is no such folder"),
    (["--tokenizer", "/tmp"], "the folder has no tokenizer.json"),
    (["--tokenizer", "/dev/null"], "this is no folder"),
    (["--base", "nope"], "cpu is there with --base: slim"),
    (["--hardware", "a Spark"], "looks at the hardware"),
    (["--text", "/no/such/file"], "--text"),
    (["--text", "/dev/null"], "must be a regular file"),
    (["--url", "spark:8000"], "not the address"),
    (["--baseline", "/no/such/record"], "there is no such file"),
    (["--baseline", "/tmp"], "this is a folder"),
    (["--baseline", "nosuchrecord"], "no record matches"),
    (["--json", "/"], "it is a folder"),
    (["--json", "/proc/x/y.json"], "its folder does not exist"),
])
def test_what_cannot_be_is_refused_at_once(words: list[str], said: str,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(*words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("words", "span"), [
    (["--runs", "1"], "2 to 1000"), (["--runs", "x"], "2 to 1000"), (["--pp", "0"], "1 to 1000000"),
    (["--tg", "99999999"], "1 to 100000"), (["--depth", "-1"], "0 to 1000000"),
    (["--concurrency", "100000"], "1 to 1000")])
def test_a_number_that_cannot_be_is_refused_with_its_span(
        words: list[str], span: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        bench(*words)
    assert f"is not a whole number from {span}" in capsys.readouterr().err


def test_a_point_that_is_named_twice_is_measured_once() -> None:
    options = argparse.Namespace(quick=True, pp=[64, 64, 32], tg=None, depth=None, concurrency=None,
                                 runs=None)
    assert grid_of(options).pp == (64, 32)


def test_nobody_at_the_address_is_said_and_leaves_no_record(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--url", "http://127.0.0.1:9") == 5
    assert "does not say which models it serves" in capsys.readouterr().err
    assert list(tmp_path.rglob("*-bench.json")) == []


def test_a_baseline_is_named_as_report_names_records(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in(monkeypatch, [7.0, 7.01, 6.99])
    with serving(ANSWERS) as url:
        assert bench("--url", url) == 0
        name = capsys.readouterr().err.split("record: ")[1].split("/")[-1].split(".")[0]
        stand_in(monkeypatch, [6.4, 6.41, 6.39])
        assert bench("--url", url, "--baseline", f"cpu/{name}") == 1
    assert f"compared with {name}" in capsys.readouterr().out


def test_a_record_of_another_kind_is_no_baseline(tmp_path: Path,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--baseline", written(tmp_path, None)) == 2
    assert "holds no benchmark" in capsys.readouterr().err


def test_a_benchmark_comes_back_from_its_record_as_it_was(tmp_path: Path) -> None:
    measured_before = a_bench([a_series(1.0, 1.1)])
    path = Path(written(tmp_path, measured_before))
    assert read_record(path).bench == measured_before


def test_a_benchmark_says_nothing_of_whether_an_image_is_right(tmp_path: Path) -> None:
    keep(tmp_path, a_record(level="bench"))
    assert not image_passed(tmp_path, "sha256:1")
    keep(tmp_path, a_record())
    assert image_passed(tmp_path, "sha256:1")
