"""llama-benchy as a program: what it is told, and how its end is read. A stand-in plays it."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from builder.bench import benchy
from builder.bench.benchy import LOCK, TOOL, Target, command, measure, no_proxy_for, text_sha256
from builder.bench.grid import QUICK, Grid
from builder.bench.results import parse
from builder.errors import UsageError, VerdictError
from tests.unit.bench_results import FIXTURES

TARGET = Target("http://127.0.0.1:1", "tiny", "/models/tiny")
STAND_IN = """
import os, shutil, sys
from pathlib import Path
words = sys.argv
home = Path(os.environ["HOME"])
texts = list((home / ".cache" / "llama-benchy").glob("*.txt"))
print("texts:", [text.read_text() for text in texts])
print("Running test: pp=128, tg=16")
print("  Warmup (batch size 1)...")
{body}
for option, name in (("--save-result", "result.json"), ("--emit-progress", "events.jsonl")):
    shutil.copyfile(Path({fixtures!r}) / name, words[words.index(option) + 1])
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    def make(body: str = "") -> None:
        package = tmp_path / "llama_benchy"
        package.mkdir()
        (package / "__main__.py").write_text(STAND_IN.format(body=body, fixtures=str(FIXTURES)))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return make


def test_its_result_is_read_and_its_text_is_ours(stand_in, capfd) -> None:  # type: ignore[no-untyped-def]
    stand_in('assert [text.read_text() for text in texts] == ["Once upon a time."]')
    found = measure(Path(sys.executable), TARGET, QUICK, "Once upon a time.")
    series, missing = parse(found.raw, found.requests)
    assert (len(series), missing) == (7, ())
    assert "llama-benchy" in capfd.readouterr().err


def test_a_bad_end_is_told_in_its_last_words(stand_in) -> None:  # type: ignore[no-untyped-def]
    stand_in('sys.exit("Error: HTTP 500: engine is dead")')
    with pytest.raises(VerdictError, match="llama-benchy failed") as caught:
        measure(Path(sys.executable), TARGET, QUICK, "x")
    assert "HTTP 500: engine is dead" in str(caught.value)


@pytest.mark.parametrize("patience", [1.0, 10.0])
def test_a_slow_server_may_be_silent_for_longer(  # type: ignore[no-untyped-def]
        stand_in, monkeypatch: pytest.MonkeyPatch, patience: float) -> None:
    given: list[float] = []
    own = benchy.threading.Timer
    monkeypatch.setattr(benchy.threading, "Timer",
                        lambda seconds, act: given.append(seconds) or own(seconds, act))
    stand_in("")
    measure(Path(sys.executable), replace(TARGET, patience=patience), QUICK, "x")
    assert set(given) == {benchy.STALL_S * patience}


def test_an_end_without_a_result_is_no_result(stand_in) -> None:  # type: ignore[no-untyped-def]
    stand_in("sys.exit(0)")
    with pytest.raises(VerdictError, match="no readable result"):
        measure(Path(sys.executable), TARGET, QUICK, "x")


def test_another_models_tokenizer_is_refused(stand_in) -> None:  # type: ignore[no-untyped-def]
    stand_in("print(\"Error loading tokenizer 'tiny': not found\")\n"
             "print(\"Falling back to 'gpt2' tokenizer as approximation.\")")
    with pytest.raises(UsageError, match=r"tokenizer could not be loaded.*not found") as caught:
        measure(Path(sys.executable), TARGET, QUICK, "x")
    assert "--tokenizer" in str(caught.value)


def test_it_is_told_the_whole_grid_and_to_stop_at_the_first_failure(tmp_path: Path) -> None:
    words = " ".join(command(Path("py"), TARGET, Grid(depth=(0, 4096)), tmp_path))
    assert words.startswith("py -m llama_benchy --base-url http://127.0.0.1:1/v1 --model tiny "
                            "--tokenizer /models/tiny --pp 128 512 2048 --tg 32 128 --depth 0 4096 "
                            "--concurrency 1 2 4 --runs 3 --exact-tg ")
    assert "--exit-on-first-fail" in words
    assert "--skip-coherence" not in words


def test_every_file_of_the_tool_is_locked_by_hash() -> None:
    text = LOCK.read_text(encoding="utf-8")
    packages = re.split(r"\n(?=[a-z])", text.strip())
    assert re.fullmatch(r"llama-benchy==\d+\.\d+\.\d+", TOOL)
    assert len(packages) > 20
    assert all("--hash=sha256:" in package for package in packages)
    assert not re.search(r"https?://|transformers==|torch==", text)


def test_this_machine_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", "example.org")
    assert no_proxy_for(["127.0.0.1"])["no_proxy"] == "example.org,127.0.0.1"
    assert benchy._environment(Path("/h"))["HOME"] == "/h"


def test_another_text_has_another_digest() -> None:
    assert len({text_sha256(), text_sha256("x"), text_sha256("")}) == 3
