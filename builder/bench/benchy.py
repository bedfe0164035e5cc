"""llama-benchy, as it is published: run against a server from a locked environment of its own.

https://github.com/eugr/llama-benchy (MIT). ``llama-benchy.txt`` locks it with its dependencies;
transformers, openai and asyncio are left out, which it names but does not need: without the first
it cannot take another tokenizer than the model's own. To renew it, with a newer version:
``uv pip compile --generate-hashes --only-binary :all: --no-header --no-annotate
--override OVERRIDES REQUIREMENT``, OVERRIDES being ``transformers ; sys_platform == "never"`` and
so on, with the oldest Python that Sparkyard supports.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import console
from builder.bench.events import Request, requests
from builder.bench.grid import Grid
from builder.bench.text import sentences
from builder.errors import UsageError, VerdictError
from builder.process import CommandError, Result, stream
from builder.record.bench import Cell

LOCK = Path(__file__).with_name("llama-benchy.txt")
TOOL = next(line.split()[0] for line in LOCK.read_text(encoding="utf-8").splitlines()
            if line.startswith("llama-benchy=="))
# It caches the text of an address under the address's md5 and then asks nobody for it.
TEXT_NAME = "sparkyard"
# Exactly tg tokens, and control tokens as text: only so can every token be seen and timed. Nothing
# is taken off for latency: what is measured is what a user waits for.
OPTIONS = ("--exact-tg", "--extra-body", "skip_special_tokens=false", "--latency-mode", "none")
GIVEN_UP = "Falling back to 'gpt2'"  # it would cut prompts by another model's tokens


@dataclass(frozen=True)
class Target:
    """A server to measure: its OpenAI address, the model's name and where its tokenizer is.

    ``tokenizer`` is a folder or the name of a hub repository.
    """

    base_url: str
    model: str
    tokenizer: str


@dataclass(frozen=True)
class Measured:
    """What llama-benchy wrote: its JSON unchanged, and the requests that its events tell of."""

    raw: Mapping[str, Any]
    requests: Mapping[Cell, tuple[Request, ...]]


def measure(python: Path, target: Target, grid: Grid, text: str | None = None) -> Measured:
    """Run the grid; raises VerdictError when llama-benchy does not reach its end.

    ``text`` is what prompts are cut from, ``sentences()`` if None.
    """
    with tempfile.TemporaryDirectory(prefix="sparkyard-bench-") as name:
        folder = Path(name)
        _place_text(folder, sentences() if text is None else text)
        _follow(command(python, target, grid, folder), _environment(folder), grid.rounds)
        try:
            raw = json.loads((folder / "result.json").read_text(encoding="utf-8"))
            with (folder / "events.jsonl").open(encoding="utf-8") as lines:
                return Measured(raw, requests(lines))
        except (OSError, ValueError, KeyError) as error:
            raise VerdictError("llama-benchy left no result that can be read: "
                               f"{type(error).__name__}") from error


def command(python: Path, target: Target, grid: Grid, folder: Path) -> tuple[str, ...]:
    """Return the command line; the first request that fails ends it, so that none is missing."""
    def words(numbers: Sequence[int]) -> tuple[str, ...]:
        return tuple(str(number) for number in numbers)

    return (str(python), "-m", "llama_benchy", "--base-url", f"{target.base_url}/v1",
            "--model", target.model, "--tokenizer", target.tokenizer,
            "--pp", *words(grid.pp), "--tg", *words(grid.tg), "--depth", *words(grid.depth),
            "--concurrency", *words(grid.concurrency), "--runs", str(grid.runs), *OPTIONS,
            "--book-url", TEXT_NAME, "--exit-on-first-fail", "--no-results-on-fail",
            "--emit-progress", str(folder / "events.jsonl"),
            "--format", "json", "--save-result", str(folder / "result.json"))


def text_sha256(text: str | None = None) -> str:
    """Return the sha256 of the text that prompts are cut from."""
    return hashlib.sha256((sentences() if text is None else text).encode()).hexdigest()


def _place_text(home: Path, text: str) -> None:
    place = home / ".cache" / "llama-benchy"
    place.mkdir(parents=True)
    name = hashlib.md5(TEXT_NAME.encode(), usedforsecurity=False).hexdigest()
    (place / f"{name}.txt").write_text(text, encoding="utf-8")


def _environment(home: Path) -> dict[str, str]:
    """Give it a home with the text; the user's hub cache, and no proxy to this machine."""
    hub = os.environ.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")
    return {"HOME": str(home), "HF_HOME": hub, "PYTHONUNBUFFERED": "1", "PYTHONNOUSERSITE": "1",
            **no_proxy_for(("127.0.0.1", "localhost"))}


def no_proxy_for(hosts: Sequence[str]) -> dict[str, str]:
    """Return the environment's exceptions from its proxies, and ``hosts`` besides."""
    kept = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    listed = ",".join([*filter(None, kept.split(",")), *hosts])
    return {"NO_PROXY": listed, "no_proxy": listed}


def _follow(words: Sequence[str], environment: Mapping[str, str], rounds: int) -> None:
    """Show its rounds as they come, and turn a bad end into an error with its last words."""
    said: list[str] = []
    with console.progress("llama-benchy", rounds, unit="rounds") as meter, \
            stream(words, env=environment) as child:
        assert child.stdout is not None
        cell = ""
        for raw in child.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            said.append(line)
            if line.startswith("Running test: "):
                cell = line.removeprefix("Running test: ")
            if GIVEN_UP in line:
                raise UsageError("the model's tokenizer could not be loaded: "
                                 + " ".join(said[-2:])[:400], where="--tokenizer",
                                 next_step="name a folder that holds its tokenizer.json")
            if line.startswith("  ") and "(batch size" in line:
                meter.advance(1, cell)
        status = child.wait()
    if status != 0:
        raise VerdictError("llama-benchy did not reach its end: "
                           + str(CommandError(Result((words[0],), status, "\n".join(said), ""))
                                 .what))
