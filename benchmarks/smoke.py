"""What a smoke run costs beyond boot and generation: `python -m benchmarks.smoke` (bar: 10 %).

Runs ``sparkyard smoke cpu --level 2`` in this process. Boot is from the container's start to the
server's word that it is up. Generation is the time during which at least one request is under way.
All the rest is the harness's own: its start-up, the container made and removed, judging, writing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from builder import cli
from builder.engine.container import Container
from builder.smoke import client
from builder.smoke.watch import Watch

ROOT = Path(__file__).parents[1]
Span = tuple[float, float]


def union(spans: list[Span]) -> float:
    """Return the seconds that lie in at least one span."""
    seconds, end = 0.0, float("-inf")
    for begin, until in sorted(spans):
        seconds += max(0.0, until - max(begin, end))
        end = max(end, until)
    return seconds


def timed(owner: Any, name: str, spans: list[Span]) -> None:
    """Let each call of a method leave its span."""
    inner: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        try:
            return inner(*arguments, **options)
        finally:
            spans.append((begin, time.perf_counter()))
    setattr(owner, name, call)


def timed_streams(spans: list[Span]) -> None:
    """Let each streamed body leave the spans during which its next line is waited for."""
    inner = client.lines

    def lines(response: requests.Response, *arguments: Any) -> Any:
        pieces = inner(response, *arguments)
        while True:
            begin = time.perf_counter()
            line = next(pieces, None)
            spans.append((begin, time.perf_counter()))
            if line is None:
                return
            yield line
    client.lines = lines


def start_up() -> float:
    """Return the seconds that the command needs to say its help."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "builder", "smoke", "--help"], cwd=ROOT, check=True,
                   capture_output=True)
    return time.perf_counter() - begin


def main() -> int:
    """Run and print each part with its share."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    boot, asked, made, removed = (list[Span]() for _ in range(4))
    timed(Watch, "boot", boot)
    timed(client.Client, "_send", asked)
    timed_streams(asked)
    timed(Container, "__init__", made)
    timed(Container, "start", made)
    timed(Container, "remove", removed)
    before, begin, used = start_up(), time.perf_counter(), time.process_time()
    status = cli.run(["--matrix", str(ROOT / "matrix.toml"), "smoke", "cpu", "--level", "2"])
    wall, used = time.perf_counter() - begin + before, time.process_time() - used
    parts = {"boot": union(boot), "requests": union(asked), "start-up": before,
             "container made": union(made), "container removed": union(removed)}
    parts["judging, log, record"] = wall - sum(parts.values())
    for name, seconds in {**parts, "wall": wall}.items():
        print(f"{name:22} {seconds:7.2f} s  {seconds / wall:6.1%}")
    own = wall - parts["boot"] - parts["requests"]
    print(f"the harness's own: {own:.2f} s, {own / wall:.1%} of the run (bar: 10 %); {used:.2f} s "
          f"of processor time, {len(asked)} waits for the server; exit status {status}")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
