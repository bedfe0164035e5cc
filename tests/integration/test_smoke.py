"""Smoke of the real CPU image: red by name on a broken model, and nothing left by a cut-off run.

The image is built first where it is not there (minutes; `nox -s quickstart` has built it).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builder.engine.client import Engine
from tests.integration.served import left_by

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests" / "fixtures" / "tiny-gemma4"
SPARKYARD = [sys.executable, "-m", "builder", "--matrix", str(ROOT / "matrix.toml")]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def wait_for_container(child: subprocess.Popen[bytes]) -> None:
    """Wait for the container that ``child`` starts."""
    for _ in range(2400):
        if left_by(child.pid, "container"):
            return
        assert child.poll() is None, "the smoke test ended without a container"
        time.sleep(0.25)
    raise AssertionError("no container came up in ten minutes")


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    subprocess.run([*SPARKYARD, "build", "cpu"], env=ENVIRONMENT, check=True, capture_output=True)


def start_smoke() -> subprocess.Popen[bytes]:
    return subprocess.Popen([*SPARKYARD, "smoke", "cpu", "--level", "2"], env=ENVIRONMENT,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_ctrl_c_leaves_no_container() -> None:
    with start_smoke() as child:
        wait_for_container(child)
        time.sleep(3)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=600) == 130
    assert left_by(child.pid) == []


def test_what_a_killed_run_leaves_the_next_one_removes() -> None:
    with start_smoke() as child:
        wait_for_container(child)
        child.send_signal(signal.SIGKILL)
    Engine.connect().sweep()
    for _ in range(240):  # a command of the other lane may have begun to sweep, and be at it
        if not left_by(child.pid):
            return
        time.sleep(0.25)
    raise AssertionError(f"a minute after the sweep: {left_by(child.pid)}")


def test_a_model_that_the_image_does_not_know_fails_by_name(tmp_path: Path) -> None:
    """The failure of the field: a transformers that has never heard of the architecture."""
    broken = tmp_path / "broken"
    shutil.copytree(TINY, broken)
    config = json.loads((broken / "config.json").read_text())
    config["model_type"] = "gemma4_unheard_of"
    (broken / "config.json").write_text(json.dumps(config))
    done = subprocess.run(
        [*SPARKYARD, "smoke", "cpu", "--level", "1a", "--model", str(broken), "--json", "-"],
        env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    record = json.loads(done.stdout)
    failed = [check["check"] for check in record["checks"] if check["status"] == "fail"]
    assert failed == ["Gemma 4 answers (transformers)"]
    # This image's transformers knows Gemma 4, which rules the first out: its family stands beside.
    assert [known["name"] for known in record["diagnosis"]] == [
        "gemma4-unsupported", "architecture-not-supported"]
    assert record["gb10"] is False


def test_a_mixture_of_experts_answers_in_process() -> None:
    """The other form of Gemma 4; its whole battery is too long for every run (docs/smoke.md)."""
    config = json.loads((TINY.with_name("tiny-gemma4-moe") / "config.json").read_text())
    assert config["text_config"]["num_experts"] > 1
    done = subprocess.run(
        [*SPARKYARD, "smoke", "cpu", "--level", "1b", "--model", str(TINY) + "-moe", "--json", "-"],
        env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = {check["check"]: check["detail"] for check in json.loads(done.stdout)["checks"]}
    assert "Paris" in answers["text: capital of France (vllm.LLM)"]
