"""An engine of the benchmark's own, so that nothing of the machine's engine is used or pruned."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder import process
from builder.engine.client import Engine

START_S = 60


@contextmanager
def private_engine() -> Iterator[tuple[Engine, str]]:
    """Run a Docker daemon with a data root of its own; gone, with all it made, at the end.

    Needs root. The second value is its ``DOCKER_HOST``.
    """
    with tempfile.TemporaryDirectory(prefix="sy-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)  # a socket's path has to be short
        host = f"unix://{folder}/docker.sock"
        words = ["dockerd", "--host", host, "--data-root", f"{folder}/data", "--exec-root",
                 f"{folder}/exec", "--pidfile", f"{folder}/pid",
                 # "none" would delete the bridge of the machine's own engine.
                 "--bridge", "docker0", "--iptables=false", "--ip6tables=false"]
        with (folder / "log").open("wb") as log, process.stream(words, stderr=log) as child:
            _wait(child, host, folder / "log")
            yield Engine.connect(host=host), host
            child.terminate()
            child.wait(timeout=START_S)


def _wait(child: subprocess.Popen[bytes], host: str, log: Path) -> None:
    for _ in range(2 * START_S):
        if subprocess.run(["docker", "--host", host, "version"], capture_output=True,
                          check=False).returncode == 0:
            return
        if child.poll() is not None:
            raise SystemExit(log.read_text(encoding="utf-8", errors="replace"))
        time.sleep(0.5)
    raise SystemExit(f"the benchmark's engine does not answer on {host}")
