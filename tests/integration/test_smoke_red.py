"""Red for the right reason: real vLLM servers with broken models, each caught by name.

Two boots. One goes through the command line: the tool parser has the faults that Gemma 4's once had
and the chat template is stale. In the other, healthy at first but for forgotten flags, the weights
are changed under the running server (vLLM's own reload).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from builder.diagnosis.catalogue import load
from builder.diagnosis.matching import diagnose
from builder.engine.client import Container, Engine, RunSpec
from builder.recipes.load import load_recipe
from builder.record.check import Check, Status
from builder.smoke.client import Client
from builder.smoke.probes.cases import AnswerCase, battery
from builder.smoke.probes.run import run
from tests.fixtures.broken_checkpoints import break_checkpoint

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
IMAGE = "127.0.0.1:5000/sparkyard/cpu:cpu"
FAULTS = ("nan", "bangs", "loops")
GOOD_FLAGS = '"--tool-call-parser", "gemma4"'
BROKEN_FLAGS = ('"--tool-parser-plugin", "/broken/broken_tool_parser.py", '
                '"--tool-call-parser", "gemma4_broken"')


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    subprocess.run([sys.executable, "-m", "builder", "--matrix", str(ROOT / "matrix.toml"), "build",
                    "cpu"], cwd=ROOT, check=True, capture_output=True)


def test_broken_parsers_and_a_stale_template_are_red_by_name(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    for name in ("matrix.toml", "locks"):
        (tmp_path / name).symlink_to(ROOT / name)
    good = (ROOT / "recipes" / "tiny-gemma4.toml").read_text()
    assert GOOD_FLAGS in good
    (tmp_path / "recipes" / "broken.toml").write_text(
        good.replace(GOOD_FLAGS, BROKEN_FLAGS).replace("tests/fixtures/tiny-gemma4", "broken"))
    break_checkpoint("thoughtless", tmp_path / "broken")
    shutil.copy(ROOT / "tests" / "fixtures" / "broken_tool_parser.py", tmp_path / "broken")
    done = subprocess.run(
        [sys.executable, "-m", "builder", "--matrix", str(tmp_path / "matrix.toml"), "smoke", "cpu",
         "--level", "2", "--recipe", "broken", "--json", "-"], text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPARKYARD_CACHE": str(tmp_path / "cache")},
        check=False)
    assert done.returncode == 1, done.stderr
    record = json.loads(done.stdout)
    wrong = {check["check"]: check["detail"] for check in record["checks"]
             if check["status"] in ("fail", "flaky")}
    assert {"tools: single, streamed", "tools: full loop"} <= wrong.keys(), done.stderr
    assert "invalid JSON" in wrong["tools: single, streamed"]
    assert "'<<' is doubled" in wrong["tools: HTML in streamed arguments"]
    assert "tag '<|tool_call>' leaks into the content" in wrong["tools: full loop"]
    assert "reasoning was asked for and is empty" in wrong["reasoning: asked"]
    assert {name.split(":")[0] for name in wrong} == {"tools", "reasoning", "chat template"}
    assert {known["name"] for known in record["diagnosis"]} == {
        "tool-arguments-malformed", "tool-tags-in-content", "chat-template-stale"}


@dataclass(frozen=True)
class Served:
    """A server whose weights may be changed."""

    box: Container
    client: Client

    def load(self, folder: str) -> None:
        """Put the weights of another folder in the place of those that it runs with."""
        for path, body in (("collective_rpc", {"method": "reload_weights",
                                               "kwargs": {"weights_path": f"/{folder}"}}),
                           ("reset_prefix_cache", None)):
            requests.post(f"{self.client.base}/{path}", json=body, timeout=60).raise_for_status()

    def asked(self, name: str, change: Mapping[str, Any] | None = None
              ) -> tuple[Check, list[str]]:
        """Ask one probe, changed if need be; return its check and the codes of the diagnosis."""
        case = next(case for case in battery().cases if case.name == name)
        check = run(self.client, case.model_copy(update={"max_tokens": 128, **(change or {})}))
        found = diagnose(self.box.logs(), load(), [check])
        return check, [item.issue.name for item in found if item.claimed]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve with another model's tool parser and without a reasoning parser."""
    folder = tmp_path_factory.mktemp("models")
    folders = [break_checkpoint(fault, folder / fault) for fault in ("leaky", *FAULTS)]
    recipe = load_recipe(ROOT, "tiny-gemma4")
    spec = RunSpec(
        IMAGE, ("python", "-m", "vllm.entrypoints.openai.api_server", "--model", "/leaky",
                "--served-model-name", "tiny", "--host", "0.0.0.0", "--enforce-eager",
                "--max-model-len", "2048", "--max-num-seqs", "8", "--enable-auto-tool-choice",
                "--tool-call-parser", "hermes", "--trust-request-mm-kwargs"),
        env={**recipe.environment, "VLLM_SERVER_DEV_MODE": "1"}, ports=(8000,), shm_size="1g",
        copies=tuple((path, f"/{path.name}") for path in folders))
    with Engine.connect().start(spec) as box:
        assert any("Application startup complete" in line for line in box.logs(follow=True))
        yield Served(box, Client(box.published_port(8000), "tiny"))


def test_forgotten_parsers_leak_their_tags(served: Served) -> None:
    check, codes = served.asked("tools: single")
    assert check.status is Status.FAIL
    assert "tag '<|tool_call>' leaks into the content" in check.detail
    assert codes == ["tool-tags-in-content", "gemma4-parsers-missing"]
    check, codes = served.asked("reasoning: asked")
    assert "reasoning was asked for and is empty" in check.detail
    assert codes == ["gemma4-parsers-missing"]


def backwards(name: str) -> dict[str, Any]:
    """Return a probe's messages with its pictures in the opposite order."""
    case = next(case for case in battery().cases if isinstance(case, AnswerCase)
                and case.name == name)
    *shown, asked = case.messages[0]["content"]
    return {"messages": ({"role": "user", "content": [*reversed(shown), asked]},)}


@pytest.mark.parametrize(("name", "change", "words"), [
    ("vision: colour", {"options": {"mm_processor_kwargs": {"do_rescale": False}}},
     "expected 'purple' in the answer"),
    ("vision: drawn scene", {"options": {"mm_processor_kwargs": {"max_soft_tokens": 280}}},
     "expected 'tree' in the answer"),
    ("vision: three pictures", backwards("vision: three pictures"),
     "expected circle, square, triangle in this order")],
    ids=["processor", "resolution", "order"])
def test_a_broken_path_of_pictures_is_red_by_name_and_the_good_one_green(
        served: Served, name: str, change: dict[str, Any], words: str) -> None:
    """The server's own processor gets wrong pixels, or too many; the sender mixes pictures up."""
    check, _ = served.asked(name, change)
    assert check.status is Status.FAIL
    assert words in check.detail
    check, _ = served.asked(name)
    assert check.status is Status.PASS, check.detail


@pytest.mark.parametrize(("fault", "name", "words", "code"), [
    ("nan", "logprobs", "Out of range float values are not JSON compliant", "logits-nan"),
    ("bangs", "text: capital of France", "'!!!!!' in the answer", "logits-garbage"),
    ("loops", "text: capital of France", "the answer ends in a loop", "answer-loops")])
def test_broken_weights_are_red_by_name_and_good_ones_green_again(
        served: Served, fault: str, name: str, words: str, code: str) -> None:
    served.load(fault)
    check, codes = served.asked(name)
    assert check.status is Status.FAIL
    assert words in check.detail
    assert codes == [code]
    served.load("leaky")
    check, codes = served.asked(name)
    assert (check.status, codes) == (Status.PASS, [])
