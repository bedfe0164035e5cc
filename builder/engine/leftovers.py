"""What killed runs left: containers and networks name their process, and are removed later.

A process removes its own, also on Ctrl-C. What a killed one left is found by its label, and removed
by the next run on the same machine.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from builder import console, limits
from builder import labels as label
from builder.engine.docker import DockerClient

IDENTITY = re.compile(r"[0-9a-f]{64}")


def sweep(docker: DockerClient) -> int:
    """Remove containers and networks of this machine's ended processes; return how many of both."""
    left = _left(docker, "container", "--all")
    if left:
        console.info(f"removing {len(left)} container{'' if len(left) == 1 else 's'} of an "
                     "earlier run that was killed")
        docker.run("container", "rm", "--force", "--volumes", *left,
                   doing="removing containers of earlier runs", check=False,
                   timeout=limits.ENGINE_CHANGE_S)
    networks = _left(docker, "network")  # after the containers, which hold them
    if networks:
        docker.run("network", "rm", *networks, doing="removing networks of earlier runs",
                   check=False, timeout=limits.ENGINE_CHANGE_S)
    return len(left) + len(networks)


def _left(docker: DockerClient, kind: str, *options: str) -> list[str]:
    """Return the ids of what processes of this machine left that are gone."""
    answer = docker.run(kind, "ls", *options, "--no-trunc", "--filter", f"label={label.RUN}",
                        "--format", '{{.ID}} {{.Label "' + label.RUN + '"}}',
                        doing=f"listing {kind}s of earlier runs")
    pairs = (line.split(" ", 1) for line in answer.stdout.splitlines() if " " in line)
    return [identity for identity, owner in pairs
            if IDENTITY.fullmatch(identity) and not is_alive(owner)]


def own_name() -> str:
    """Name this process: host, process id and, since ids are reused, when it started."""
    return f"{platform.node()}/{os.getpid()}/{_started(os.getpid())}"


def is_alive(owner: str) -> bool:
    """Say whether the named process still runs; processes of other machines count as running."""
    node, _, rest = owner.partition("/")
    pid, _, started = rest.partition("/")
    if node != platform.node() or not (pid.isascii() and pid.isdigit()):
        return node != platform.node()
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return _started(int(pid)) == started


def _started(pid: int) -> str:
    """Return the process's start time in clock ticks since boot; empty where there is no /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]
