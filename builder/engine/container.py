"""Containers: run one to its end, or keep one running, and never leave one behind.

Each container carries a label that names the process it belongs to. A process removes its own
containers, also on Ctrl-C; those of a killed one are found by the label and removed by the next
run (``sweep``). Files are copied in rather than mounted wherever that serves, so that it also
works with an engine on another machine.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, cast

from builder import console, process
from builder import labels as label
from builder.engine.errors import explain
from builder.errors import EngineError

STOP_SECONDS = 5
REMOVED = "destroy"
EVENTS = ("start", "oom", "kill", "die", REMOVED)  # of all that an engine tells


@dataclass(frozen=True)
class RunSpec:
    """What to run: ``docker run`` as a value.

    ``copies`` are (host path, path in the container), copied in before the start: a folder
    ``a`` copied to ``/x`` becomes ``/x`` where ``/x`` does not exist, and ``/x/a`` where it does.
    ``mounts`` are (host path, path in the container), bind-mounted read-only; ``kept`` are folders
    mounted so that what the container writes there stays. ``handed_on`` are variables of this
    process whose values must stand on no command line.
    ``ports`` are container ports, each published on a free port of 127.0.0.1.
    """

    image: str
    command: tuple[str, ...] = ()
    platform: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    copies: tuple[tuple[Path, str], ...] = ()
    mounts: tuple[tuple[Path, str], ...] = ()
    kept: tuple[tuple[Path, str], ...] = ()
    handed_on: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    network: str | None = None
    entrypoint: str | None = None
    workdir: str | None = None
    user: str | None = None
    shm_size: str | None = None
    gpus: str | None = None
    interactive: bool = False


@dataclass(frozen=True)
class ContainerState:
    """How a container is: ``status`` is Docker's word (running, exited …)."""

    status: str
    exit_code: int
    out_of_memory: bool
    error: str

    @property
    def running(self) -> bool:
        """Say whether its first process lives."""
        return self.status not in ("created", "exited", "dead")


@dataclass(frozen=True)
class DockerClient:
    """The docker program with its global options; failures come as our own errors."""

    words: tuple[str, ...]

    def run(self, *arguments: str, doing: str, where: str = "", check: bool = True,
            stdin: bytes | None = None, timeout: float | None = None) -> process.Result:
        """Run one docker command; raise what ``explain`` makes of its failure when ``check``."""
        result = process.run([*self.words, *arguments], check=False, stdin=stdin, timeout=timeout)
        if check and result.returncode != 0:
            raise explain(result.stderr or result.stdout, doing, where)
        return result


class Container:
    """A container that exists for a ``with`` block only."""

    def __init__(self, docker: DockerClient, spec: RunSpec) -> None:
        """Create it (not started) and copy its files in."""
        self._docker = docker
        self.spec = spec
        words = [*_options(spec), spec.image, *spec.command]
        self.id = docker.run("container", "create", *words, doing=f"creating a container of "
                             f"{spec.image}").stdout.strip()
        try:
            for source, target in spec.copies:
                self.copy_into(source, target)
        except BaseException:
            self.remove()
            raise

    def __enter__(self) -> Container:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.remove()

    def start(self) -> None:
        """Start it in the background."""
        self._docker.run("container", "start", self.id, doing=f"starting {self.spec.image}")

    def attach(self, stdin: bytes | None, timeout: float | None) -> process.Result:
        """Start it, feed ``stdin``, wait for its end; the result is the program's own.

        Raises EngineError where it never started or the engine went away.
        """
        flags = ["--attach", *(["--interactive"] if self.spec.interactive else [])]
        result = self._docker.run("container", "start", *flags, self.id, doing="running",
                                  check=False, stdin=stdin, timeout=timeout)
        if result.returncode != 0 and self.state().error:
            raise explain(self.state().error, f"running {self.spec.image}")
        return result

    @contextmanager
    def pipes(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start it with its standard input and output as pipes (spec.interactive is needed)."""
        words = [*self._docker.words, "container", "start", "--attach", "--interactive", self.id]
        with process.stream(words, stdin=subprocess.PIPE, stderr=None) as child:
            yield child

    def state(self) -> ContainerState:
        """Return how it is now."""
        said = self._inspect()["State"]
        return ContainerState(said["Status"], int(said["ExitCode"]), bool(said["OOMKilled"]),
                              said.get("Error", ""))

    def follow_events(self) -> Iterator[str]:
        """Yield what befalls it (start, oom, kill, die, destroy), from its creation, as it comes.

        Followed live: an engine remembers its last 256 events only, and none after a restart. Ends
        when the container is removed; raises EngineError where the engine goes away before that.
        """
        words = [*self._docker.words, "events", "--since", self._inspect()["Created"], "--filter",
                 f"container={self.id}", "--format", "{{.Action}}",
                 *(word for name in EVENTS for word in ("--filter", f"event={name}"))]
        with process.stream(words) as child:
            assert child.stdout is not None
            for line in child.stdout:
                action = line.decode("utf-8", "replace").strip()
                if action in EVENTS:
                    yield action
                if action == REMOVED:
                    return
            if child.wait() > 0:  # the program itself was not killed: its engine went away
                raise EngineError("the connection to the Docker engine broke",
                                  where=self.spec.image, next_step="see the engine's own log")

    def published_port(self, port: int) -> int:
        """Return the port of 127.0.0.1 that leads to ``port`` inside."""
        return int(self._inspect()["NetworkSettings"]["Ports"][f"{port}/tcp"][0]["HostPort"])

    def exec(self, command: Sequence[str], *, env: Mapping[str, str] | None = None,
             stdin: bytes | None = None, timeout: float | None = None) -> process.Result:
        """Run another command inside and wait for it; its status is in the result."""
        words = [word for key, value in (env or {}).items() for word in ("--env", f"{key}={value}")]
        words += ["--interactive"] if stdin is not None else []
        return self._docker.run("container", "exec", *words, self.id, *command,
                                doing="running inside", check=False, stdin=stdin, timeout=timeout)

    @contextmanager
    def stream_exec(self, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """Run another command inside with both its streams as one pipe, to be read as it comes."""
        words = [*self._docker.words, "container", "exec", self.id, *command]
        with process.stream(words) as child:
            yield child

    @contextmanager
    def export(self) -> Iterator[BinaryIO]:
        """Stream its file system as a tar; raises EngineError when the engine stops half-way."""
        with process.stream([*self._docker.words, "container", "export", self.id],
                            stderr=None) as child:
            assert child.stdout is not None
            yield cast(BinaryIO, child.stdout)
            while child.stdout.read(1 << 20):  # what the reader left, or the engine waits for ever
                pass
            if child.wait() != 0:
                raise EngineError("the engine did not give the whole file system",
                                  where=self.spec.image, next_step="see the engine's log")

    def copy_into(self, source: Path, target: str) -> None:
        """Copy a file or folder of this machine into the container."""
        self._docker.run("container", "cp", str(source), f"{self.id}:{target}",
                         doing=f"copying {source} into a container")

    def copy_out(self, source: str, target: Path) -> None:
        """Copy a file or folder of the container to this machine."""
        self._docker.run("container", "cp", f"{self.id}:{source}", str(target),
                         doing=f"copying {source} out of a container")

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        """Yield the lines of both streams, as they come when ``follow`` is set."""
        words = [*self._docker.words, "container", "logs", *(["--follow"] if follow else []),
                 self.id]
        with process.stream(words) as child:
            assert child.stdout is not None
            for line in child.stdout:
                yield line.decode("utf-8", "replace").rstrip("\r\n")

    def stop(self, seconds: int = STOP_SECONDS) -> None:
        """Ask it to end, kill it after ``seconds``; it and its log stay until ``remove``."""
        self._docker.run("container", "stop", "--time", str(seconds), self.id, doing="stopping",
                         check=False)

    def remove(self) -> None:
        """Kill and remove it; silent when the engine already did."""
        self._docker.run("container", "rm", "--force", "--volumes", self.id, doing="removing",
                         check=False)

    def _inspect(self) -> dict[str, Any]:
        answer = self._docker.run("container", "inspect", self.id, doing="asking for a container")
        found: list[dict[str, Any]] = json.loads(answer.stdout)
        return found[0]


def sweep(docker: DockerClient) -> int:
    """Remove the containers of processes of this machine that are gone; return how many."""
    answer = docker.run("container", "ls", "--all", "--no-trunc", "--filter",
                        f"label={label.RUN}", "--format",
                        '{{.ID}} {{.Label "' + label.RUN + '"}}', doing="looking for leftovers")
    pairs = (line.split(" ", 1) for line in answer.stdout.splitlines() if " " in line)
    left = [identity for identity, owner in pairs if not _alive(owner)]
    if left:
        console.info(f"removing {len(left)} container(s) that a killed run left")
        docker.run("container", "rm", "--force", "--volumes", *left, doing="removing leftovers",
                   check=False)
    return len(left)


def owner() -> str:
    """Name this process: host, process id and, since ids are reused, when it started."""
    return f"{platform.node()}/{os.getpid()}/{_started(os.getpid())}"


def _alive(owner_label: str) -> bool:
    """Say whether the named process still lives; processes of other machines count as alive."""
    node, _, rest = owner_label.partition("/")
    pid, _, started = rest.partition("/")
    if node != platform.node() or not pid.isdigit():
        return node != platform.node()
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
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


def _options(spec: RunSpec) -> list[str]:
    """Return the options of ``docker container create`` for a spec."""
    words = ["--label", f"{label.RUN}={owner()}", "--pull", "never"]
    single = {"--platform": spec.platform, "--network": spec.network, "--gpus": spec.gpus,
              "--entrypoint": spec.entrypoint, "--workdir": spec.workdir, "--user": spec.user,
              "--shm-size": spec.shm_size}
    for flag, value in single.items():
        words += [flag, value] if value is not None else []
    words += [word for key, value in spec.env.items() for word in ("--env", f"{key}={value}")]
    words += [word for name in spec.handed_on for word in ("--env", name)]
    for source, target in spec.mounts:
        words += ["--mount", f"type=bind,src={source},dst={target},readonly"]
    for source, target in spec.kept:
        words += ["--mount", f"type=bind,src={source},dst={target}"]
    for port in spec.ports:
        words += ["--publish", f"127.0.0.1::{port}"]
    return [*words, *(["--interactive"] if spec.interactive else [])]
