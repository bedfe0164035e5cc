"""A server that stays, really: served, asked by the official client, switched, cut off, stopped.

One story, since each boot of the real vLLM costs half a minute: every step goes on from the last.
Both models see: each is sent a picture of a shape and a drawn scene, and has to say what is there.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from builder import labels as label
from builder.recipes.load import load_recipe
from builder.smoke.probes.cases import AnswerCase, battery, body
from builder.smoke.probes.judge import judge
from tests.fixtures.broken_checkpoints import break_checkpoint
from tests.integration.served import free_port

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
TINY, MOE = "tiny-gemma4", "tiny-gemma4-moe"
ASKED = ("tools: single", "vision: colour", "vision: drawn scene")
KV_CACHE = re.compile(r"KV cache size: ([\d,]+) tokens")
KEY = "sk-only-for-this-test-0123456789"
USER = 12345  # whom sudo would name: no such user has an entry in the image
WITHIN_S = 600


def containers() -> set[str]:
    return set(subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label={label.SERVE}recipe"],
        capture_output=True, text=True, check=True).stdout.split())


class Host:
    """The command line of this checkout, with a port, a key and folders of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.key = folder / "key"
        self.key.write_text(KEY + "\n")
        os.chown(self.key, USER, USER)
        self.key.chmod(0o600)
        self.environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(folder / "hub"),
            **({"SUDO_UID": str(USER), "SUDO_GID": str(USER), "SUDO_USER": "ann"}
               if os.geteuid() == 0 else {})}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "builder", "--matrix", str(ROOT / "matrix.toml"), *words],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words: str, code: int = 0) -> tuple[str, str]:
        with self.start(*words) as child:
            out, err = child.communicate(timeout=WITHIN_S)
        assert child.returncode == code, f"{words}: {out}\n{err}"
        return out, err

    def interrupt(self, child: subprocess.Popen[str], name: signal.Signals, code: int) -> str:
        """Send a signal once the boot is followed; return what the command said on its end."""
        assert child.stderr is not None
        for line in child.stderr:
            if " s  start" in line:
                break
        child.send_signal(name)
        _, said = child.communicate(timeout=WITHIN_S)
        assert child.returncode == code, said
        return said

    def rows(self, code: int = 0) -> list[dict[str, object]]:
        out, _ = self.run("status", "--json", code=code)
        found: list[dict[str, object]] = json.loads(out)["servers"]
        return found


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    found = Host(tmp_path_factory.mktemp("serve"))
    found.run("build", "cpu")
    found.run("fetch", "cpu")  # the recipe check reads vLLM's wheel
    assert containers() == set(), "another server runs on this machine: stop it first"
    yield found
    found.run("stop", "--all")
    assert containers() == set()


def ask(host: Host, name: str) -> None:
    """Chat, stream, call a tool and send pictures with the official client."""
    recipe = load_recipe(ROOT, name)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    asked = {"model": recipe.model.name, "temperature": 0, "max_tokens": 64}
    with openai.OpenAI(base_url=f"http://127.0.0.1:{host.port}/v1", api_key=KEY,
                       max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="wrong").chat.completions.create(messages=question, **asked)
        answer = client.chat.completions.create(messages=question, **asked)
        assert "Paris" in str(answer.choices[0].message.content)
        pieces = list(client.chat.completions.create(messages=question, stream=True, **asked))
        assert "Paris" in "".join(piece.choices[0].delta.content or "" for piece in pieces)
        assert len(pieces) > 1
        for case in battery().cases:
            if case.name in ASKED and isinstance(case, AnswerCase):
                assert not case.inapplicable(recipe.capabilities), f"{name}: {case.name}"
                answer = client.chat.completions.create(**body(case, recipe.model.name))
                assert judge(case, answer.model_dump()) == "", case.name


def test_a_servers_life(host: Host) -> None:
    before = files_of_others(host)
    recipe_checks_hold(host)
    detach_and_serve(host)
    look_at_it(host)
    switch_and_back_with_a_kill(host)
    broken_target_is_rolled_back(host)
    _, err = host.run("stop")
    assert "stopped: tiny-gemma4" in err
    assert "kept: the image" in err
    assert host.run("stop")[1].strip() == "no such server runs: nothing to stop"
    assert containers() == set()
    assert host.rows() == []
    assert files_of_others(host) == before, "nothing belongs to another user"


def detach_and_serve(host: Host) -> None:
    """Ctrl-C in the boot leaves the server starting; the same command follows it to its end."""
    words = ("serve", TINY, "--port", str(host.port), "--api-key-file", str(host.key))
    with host.start(*words) as child:
        said = host.interrupt(child, signal.SIGINT, 130)
    assert "goes on starting, and was not stopped" in said
    assert str(host.rows()[0]["state"]).startswith("starting")
    out, err = host.run(*words)
    assert "runs already" in err
    assert f"answers at http://127.0.0.1:{host.port}/v1" in out
    ask(host, TINY)


def recipe_checks_hold(host: Host) -> None:
    """Check the recipes that this image serves by the wheel that it has: nothing is found."""
    out, _ = host.run("recipe", "check", TINY, MOE, f"{TINY}-plain", "--json")
    assert [entry["findings"] for entry in json.loads(out)] == [[], [], []]


def the_cache_is_what_was_estimated(host: Host, name: str, log: str) -> None:
    """Compare what vLLM says of its KV cache with what the recipe check said: within 5 %."""
    said = KV_CACHE.search(log)
    assert said, log
    estimate = json.loads(host.run("recipe", "check", name, "--json")[0])[0]["memory"]
    assert estimate["kv_cache_tokens"] == pytest.approx(int(said[1].replace(",", "")), rel=0.05)


def look_at_it(host: Host) -> None:
    """Status, log, rights: no key anywhere, an unprivileged user, a read-only root."""
    row = host.rows()[0]
    assert (row["recipe"], row["state"], row["answers"]) == (TINY, "ready", "answers")
    log, _ = host.run("logs")
    assert "Application startup complete" in log
    the_cache_is_what_was_estimated(host, TINY, log)
    with host.start("logs", "-f") as child:
        assert child.stdout is not None
        assert child.stdout.readline()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=WITHIN_S)
        assert child.returncode == 0
    assert len(containers()) == 1
    text = subprocess.run(["docker", "inspect", *containers()], capture_output=True, text=True,
                          check=True).stdout
    assert KEY not in text + log
    entry = json.loads(text)[0]
    rights = entry["HostConfig"]
    assert rights["CapDrop"] == ["ALL"]
    assert rights["SecurityOpt"] == ["no-new-privileges"]
    assert rights["ReadonlyRootfs"] is True
    assert rights["DeviceRequests"] in (None, [])
    assert rights["PortBindings"]["8000/tcp"][0]["HostIp"] == "127.0.0.1"
    assert not any(mount["RW"] for mount in entry["Mounts"])
    assert entry["Image"].startswith("sha256:")
    if os.geteuid() == 0:
        assert entry["Config"]["User"] == f"{USER}:{USER}"


def switch_and_back_with_a_kill(host: Host) -> None:
    """To the mixture of experts; the way back is killed in its middle, told of and gone on with."""
    out, _ = host.run("switch", MOE)
    assert "tiny-gemma4-moe answers at" in out
    the_cache_is_what_was_estimated(host, MOE, host.run("logs")[0])
    ask(host, MOE)
    with host.start("switch", TINY) as child:
        while "at work now: switch" not in host.run("status")[1]:
            assert child.poll() is None
        assert "another command is at work: switch" in host.run("stop", code=2)[1]
        host.interrupt(child, signal.SIGKILL, -signal.SIGKILL)
    _, notes = host.run("status", code=1)
    assert f"a switch from {MOE} to {TINY} was cut off" in notes
    _, said = host.run("serve", "tiny-gemma4-plain", code=2)
    assert "is not complete" in said
    _, said = host.run("switch", TINY)
    assert "going on with the switch" in said
    assert len(containers()) == 1
    ask(host, TINY)


def broken_target_is_rolled_back(host: Host) -> None:
    """Switch to a checkpoint that boots and prints garbage: the old model comes back."""
    broken = break_checkpoint("bangs", host.folder / "broken")
    _, said = host.run("switch", MOE, "--model", str(broken), code=1)
    assert f"{MOE} did not become ready: text: capital of France" in said
    assert f"{TINY} is back and answers" in said
    assert [row["recipe"] for row in host.rows()] == [TINY]
    ask(host, TINY)


def files_of_others(host: Host) -> set[str]:
    """Return what neither this user nor the one behind sudo owns, where a server could write."""
    folders = (host.folder, ROOT / "tests" / "fixtures")
    return {str(path) for folder in folders for path in folder.rglob("*")
            if path.lstat().st_uid not in (os.geteuid(), USER)}
