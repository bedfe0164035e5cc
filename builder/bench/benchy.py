"""llama-benchy, unchanged, run against a server from a locked environment of its own.

https://github.com/eugr/llama-benchy (MIT). ``llama-benchy.txt`` locks it with its dependencies,
without transformers, openai and asyncio, which it declares but does not need; without transformers
it cannot use a tokenizer other than the model's own. To update the lock to a newer version:
``uv pip compile --generate-hashes --only-binary :all: --no-header --no-annotate
--override OVERRIDES REQUIREMENT``, OVERRIDES being ``transformers ; sys_platform == "never"`` and
so on, with the oldest Python that Sparkyard supports.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import console
from builder.bench.events import Request, requests, take_arrivals
from builder.bench.grid import Grid
from builder.bench.text import sentences
from builder.errors import UsageError, VerdictError
from builder.limits import BENCH_RESULT_BYTES, read_file
from builder.process import CommandError, Result, stream
from builder.record.bench import GridPoint
from builder.text import one_line, redact

AGAIN = "run it again with -v, which shows what llama-benchy says"
LOCK = Path(__file__).with_name("llama-benchy.txt")
TOOL = next(line.split()[0] for line in LOCK.read_text(encoding="utf-8").splitlines()
            if line.startswith("llama-benchy=="))
# It caches the text of a URL under the md5 of that URL, and then does not download it.
TEXT_NAME = "sparkyard"
# Exactly tg tokens, and control tokens as text: otherwise not every token could be seen and timed.
# No latency is subtracted: the figures are what a user waits for.
OPTIONS = ("--exact-tg", "--extra-body", "skip_special_tokens=false", "--latency-mode", "none")
FALLBACK = "Falling back to 'gpt2'"  # it would count prompts in another model's tokens
STALL_S = 1800.0  # without a line of output; one round of a slow CPU takes some minutes
LINE_BYTES = 10_000  # a longer line is taken in parts
KEPT_LINES = 200  # of its output, for the error message


@dataclass(frozen=True)
class Target:
    """A server to measure: its OpenAI address, the name of the model, and its tokenizer.

    ``tokenizer`` is a folder or the name of a hub repository; ``patience`` multiplies the time in
    which it may say nothing.
    """

    base_url: str
    model: str
    tokenizer: str
    patience: float = 1.0


@dataclass(frozen=True)
class Measured:
    """What llama-benchy wrote: its JSON but for the tokens' times, and its requests."""

    raw: Mapping[str, Any]
    requests: Mapping[GridPoint, tuple[Request, ...]]


def measure(python: Path, target: Target, grid: Grid, text: str | None = None) -> Measured:
    """Run the grid; raises VerdictError when llama-benchy fails.

    ``text`` is what prompts are cut from, ``sentences()`` if None.
    """
    with tempfile.TemporaryDirectory(prefix="sparkyard-bench-") as name:
        folder = Path(name)
        _place_text(folder, sentences() if text is None else text)
        _follow(command(python, target, grid, folder), _environment(folder), grid.rounds,
                STALL_S * target.patience)
        try:
            raw = json.loads(read_file(folder / "result.json", BENCH_RESULT_BYTES, "result"))
            arrivals = take_arrivals(raw)
            with (folder / "events.jsonl").open(encoding="utf-8") as lines:
                return Measured(raw, requests(lines, arrivals))
        except (OSError, ValueError, LookupError, TypeError, AttributeError,
                RecursionError) as error:
            raise VerdictError("llama-benchy left no readable result "
                               f"({type(error).__name__})", next_step=AGAIN) from error


def command(python: Path, target: Target, grid: Grid, folder: Path) -> tuple[str, ...]:
    """Return the command line; llama-benchy stops at the first request that fails."""
    def words(numbers: Sequence[int]) -> tuple[str, ...]:
        return tuple(str(number) for number in numbers)

    return (str(python), "-m", "llama_benchy", "--base-url", f"{target.base_url}/v1",
            "--model", target.model, "--tokenizer", target.tokenizer,
            "--pp", *words(grid.pp), "--tg", *words(grid.tg), "--depth", *words(grid.depth),
            "--concurrency", *words(grid.concurrency), "--runs", str(grid.runs), *OPTIONS,
            "--save-all-throughput-timeseries",
            "--book-url", TEXT_NAME, "--exit-on-first-fail", "--no-results-on-fail",
            "--emit-progress", str(folder / "events.jsonl"),
            "--format", "json", "--save-result", str(folder / "result.json"))


def text_sha256(text: str | None = None) -> str:
    """Return the sha256 of the text which prompts are cut from."""
    return hashlib.sha256((sentences() if text is None else text).encode()).hexdigest()


def _place_text(home: Path, text: str) -> None:
    place = home / ".cache" / "llama-benchy"
    place.mkdir(parents=True)
    name = hashlib.md5(TEXT_NAME.encode(), usedforsecurity=False).hexdigest()
    (place / f"{name}.txt").write_text(text, encoding="utf-8")


def _environment(home: Path) -> dict[str, str]:
    """Give it a home with the text, the user's hub cache, and no proxy for this machine."""
    hub = os.environ.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")
    return {"HOME": str(home), "HF_HOME": hub, "PYTHONUNBUFFERED": "1", "PYTHONNOUSERSITE": "1",
            **no_proxy_for(("127.0.0.1", "localhost"))}


def no_proxy_for(hosts: Sequence[str]) -> dict[str, str]:
    """Return the environment's exceptions from its proxies, with ``hosts`` added."""
    exceptions = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    listed = ",".join([*filter(None, exceptions.split(",")), *hosts])
    return {"NO_PROXY": listed, "no_proxy": listed}


def _follow(words: Sequence[str], environment: Mapping[str, str], rounds: int, stall: float
            ) -> None:
    """Show its rounds as they come, and turn a failure into an error with its last words."""
    output: deque[str] = deque(maxlen=KEPT_LINES)
    with console.progress("llama-benchy", rounds, unit="rounds") as meter, \
            stream(words, env=environment) as child:
        assert child.stdout is not None
        point = ""
        for line in _lines(child, stall):
            output.append(line)
            if line.startswith("Running test: "):
                point = line.removeprefix("Running test: ")
            if FALLBACK in line:
                raise UsageError("the model's tokenizer could not be loaded: "
                                 + one_line(" ".join(list(output)[-2:]), 400),
                                 where="--tokenizer",
                                 next_step="name a folder that holds its tokenizer.json")
            if line.startswith("  ") and "(batch size" in line:
                meter.advance(1, one_line(point, 100))
        status = child.wait()
    if status != 0:
        failure = CommandError(Result((Path(words[0]).name,), status, "\n".join(output), ""))
        raise VerdictError(f"llama-benchy failed: {redact(failure.what)}",
                           next_step="read the server's log, then run the same command again")


def _lines(child: subprocess.Popen[bytes], stall: float) -> Iterator[str]:
    """Yield its lines, cut to a sensible length; a child that falls silent is ended."""
    assert child.stdout is not None
    while True:
        silence = threading.Timer(stall, child.kill)
        silence.daemon = True
        silence.start()
        raw = child.stdout.readline(LINE_BYTES)
        silence.cancel()
        if not raw:
            return
        yield raw.decode("utf-8", "replace").rstrip()
