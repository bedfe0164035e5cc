"""Containers: run one to its end, or keep one running, and never leave one behind.

Each container carries a label that names the process it belongs to (``builder.engine.leftovers``).
Files are copied in rather than mounted wherever that serves, so that it also works with an engine
on another machine.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

from builder import labels as label
from builder import limits, process
from builder.engine.docker import DockerClient, timed_output
from builder.engine.errors import explain
from builder.engine.leftovers import own_name
from builder.errors import EngineError

CONTAINER_ID = re.compile(r"[0-9a-f]{12,64}")
REMOVED = "destroy"
EVENTS = ("start", "oom", "kill", "die", REMOVED)  # of all that an engine reports
T = TypeVar("T")
ASKING = "asking the engine about a container"
REFUSAL = "Error response from daemon: "  # begins a line of docker itself


@dataclass(frozen=True)
class RunSpec:
    """What to run: ``docker run`` as a value.

    ``copies`` are (host path, path in the container), copied in before the start: a folder
    ``a`` copied to ``/x`` becomes ``/x`` where ``/x`` does not exist, and ``/x/a`` where it does.
    ``mounts`` are (host path, path in the container), bind-mounted read-only; ``writable_mounts``
    may be written to. ``forwarded_env`` names variables of this process whose values (tokens) must
    not appear on a command line. ``ports`` are container ports, each published on a free port of
    127.0.0.1. ``read_only`` is of the root file system; ``tmpfs`` lies over it, each as
    ``/folder:options``. ``alias`` is the name by which others of ``network`` find it.
    """

    image: str
    command: tuple[str, ...] = ()
    platform: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    copies: tuple[tuple[Path, str], ...] = ()
    mounts: tuple[tuple[Path, str], ...] = ()
    writable_mounts: tuple[tuple[Path, str], ...] = ()
    forwarded_env: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    network: str | None = None
    entrypoint: str | None = None
    workdir: str | None = None
    user: str | None = None
    shm_size: str | None = None
    gpus: str | None = None
    interactive: bool = False
    ipc: str | None = None
    read_only: bool = False
    no_new_privileges: bool = False
    tmpfs: tuple[str, ...] = ()
    alias: str | None = None


@dataclass(frozen=True)
class ContainerState:
    """How a container is: ``status`` is Docker's word (running, exited …)."""

    status: str
    exit_code: int
    out_of_memory: bool
    error: str

    @property
    def running(self) -> bool:
        """Say whether its first process lives; that of a paused container does."""
        return self.status not in ("created", "exited", "dead")


class Container:
    """A container that exists for a ``with`` block only."""

    def __init__(self, docker: DockerClient, spec: RunSpec) -> None:
        """Create it (not started) and copy its files in."""
        self._docker = docker
        self.spec = spec
        self.id = docker.ask(
            "container", "create", *create_options(spec), spec.image, *spec.command,
            read=lambda text: CONTAINER_ID.findall(text)[-1], where=spec.image,
            doing=f"creating a container of {spec.image}", timeout=limits.ENGINE_CHANGE_S)
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
        self._docker.run("container", "start", self.id, doing=f"starting {self.spec.image}",
                         timeout=limits.ENGINE_CHANGE_S)

    def attach(self, stdin: bytes | None, timeout: float) -> process.Result:
        """Start it, feed ``stdin``, wait for its end; the result is the program's own.

        Raises EngineError where it never started, the engine went away, or time ran out.
        """
        doing = f"running {self.spec.image}"
        flags = ["--attach", *(["--interactive"] if self.spec.interactive else [])]
        result = self._docker.run("container", "start", *flags, self.id, doing=doing,
                                  check=False, stdin=stdin, timeout=timeout)
        if result.returncode != 0 and (error := self.state().error):
            raise explain(error, doing)
        return result

    @contextmanager
    def pipes(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start it with its standard input and output as pipes (spec.interactive is needed)."""
        words = [*self._docker.words, "container", "start", "--attach", "--interactive", self.id]
        with process.stream(words, stdin=subprocess.PIPE, stderr=None) as child:
            yield child

    def state(self) -> ContainerState:
        """Return how it is now."""
        return self.read(lambda entry: ContainerState(
            entry["State"]["Status"], int(entry["State"]["ExitCode"]),
            bool(entry["State"]["OOMKilled"]), str(entry["State"].get("Error", ""))))

    @contextmanager
    def stream(self, words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """Follow what a docker command prints for the length of the block."""
        with process.stream([*self._docker.words, *words]) as child:
            yield child

    def begun(self) -> str:
        """Return the moment from which its events count: its creation."""
        return self.read(lambda entry: str(entry["Created"]))

    def follow_events(self) -> Iterator[str]:
        """Yield its events (start, oom, kill, die, destroy) from ``begun`` on, as they come.

        Followed live: an engine remembers its last 256 events only, and none after a restart. Ends
        when the container is removed; raises EngineError where the engine goes away before that.
        """
        words = ["events", "--since", self.begun(), "--filter", f"container={self.id}",
                 "--format", "{{.Action}}",
                 *(word for name in EVENTS for word in ("--filter", f"event={name}"))]
        with self.stream(words) as child:
            for line in process.lines(child):
                if (action := line.strip()) in EVENTS:
                    yield action
                if action == REMOVED:
                    return
            if child.wait() > 0:  # the program itself was not killed: its engine went away
                raise EngineError("the connection to the Docker engine was lost",
                                  where=self.spec.image, next_step="check the engine's log")

    def published_port(self, port: int) -> int:
        """Return the port of 127.0.0.1 that leads to ``port`` inside."""
        return self.read(lambda entry: int(
            entry["NetworkSettings"]["Ports"][f"{port}/tcp"][0]["HostPort"]))

    def exec(self, command: Sequence[str], *, env: Mapping[str, str] | None = None,
             stdin: bytes | None = None, timeout: float | None = None) -> process.Result:
        """Run another command inside and wait for it; its status is in the result.

        Raises EngineError after ``timeout`` seconds, an hour if None.
        """
        words = [word for key, value in (env or {}).items() for word in ("--env", f"{key}={value}")]
        words += ["--interactive"] if stdin is not None else []
        return self._docker.run("container", "exec", *words, self.id, *command,
                                doing=f"running {command[0]} in a container of {self.spec.image}",
                                check=False, stdin=stdin, timeout=timeout or limits.ENGINE_EXEC_S)

    @contextmanager
    def stream_exec(self, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """Run another command inside with both its streams as one pipe, to be read as it comes."""
        words = [*self._docker.words, "container", "exec", self.id, *command]
        with process.stream(words) as child:
            yield child

    @contextmanager
    def export(self) -> Iterator[BinaryIO]:
        """Stream its file system as a tar; raises EngineError when the engine stops half-way."""
        with self._docker.output("container", "export", self.id, where=self.spec.image,
                                 doing="reading an image's file system") as stream:
            yield stream

    def copy_into(self, source: Path, target: str) -> None:
        """Copy a file or folder of this machine into the container."""
        self._docker.run("container", "cp", str(source), f"{self.id}:{target}",
                         doing=f"copying {source} into a container", where=self.spec.image,
                         timeout=limits.ENGINE_TRANSFER_S)

    def log_options(self) -> Sequence[str]:
        """Return what limits the log: nothing, it is read from the beginning."""
        return ()

    def logs(self, *, follow: bool = False, within: float | None = None) -> Iterator[str]:
        """Yield the lines of both streams, as they come when ``follow`` is set.

        Raises EngineError where they are not complete ``within`` seconds, and, unless it follows,
        where the engine does not give them: what docker says then is no line of the log.
        """
        words = ["container", "logs", *self.log_options(), *(["--follow"] if follow else []),
                 self.id]
        with self.stream(words) as child:
            assert child.stdout is not None
            timed = (nullcontext(child.stdout) if within is None else
                     timed_output(child, within, "reading a log", self.spec.image, within))
            with timed as output:
                held = ""
                for raw in iter(partial(output.readline, limits.LINE_BYTES), b""):
                    if held:
                        yield held
                    line = raw.decode("utf-8", "replace").rstrip("\r\n")
                    held = line if line.startswith(REFUSAL) and not follow else ""
                    if not held:
                        yield line
                if held and child.wait(limits.ENGINE_ASK_S) != 0:
                    raise explain(held, "reading a log", self.spec.image)
                if held:
                    yield held

    def stop(self, grace: int) -> None:
        """Ask its first process to end, and kill all of it after ``grace`` seconds."""
        self._docker.run("container", "stop", "--time", str(grace), self.id, check=False,
                         doing="stopping a container", timeout=limits.ENGINE_CHANGE_S)

    def remove(self) -> None:
        """Kill and remove it; silent when the engine already did."""
        self._docker.run("container", "rm", "--force", "--volumes", self.id, check=False,
                         doing="removing a container", timeout=limits.ENGINE_CHANGE_S)

    def read(self, read: Callable[[dict[str, Any]], T]) -> T:
        """Return what ``read`` makes of ``docker inspect``'s answer."""
        return self._docker.ask("container", "inspect", self.id, doing=ASKING,
                                where=self.spec.image, read=lambda text: read(json.loads(text)[0]))


def create_options(spec: RunSpec) -> list[str]:
    """Return the options of ``docker container create`` for a spec."""
    words = ["--label", f"{label.RUN}={own_name()}", "--pull", "never"]
    single = {"--platform": spec.platform, "--network": spec.network, "--gpus": spec.gpus,
              "--entrypoint": spec.entrypoint, "--workdir": spec.workdir, "--user": spec.user,
              "--shm-size": spec.shm_size, "--ipc": spec.ipc, "--network-alias": spec.alias}
    for flag, value in single.items():
        words += [flag, value] if value is not None else []
    words += [word for key, value in spec.env.items() for word in ("--env", f"{key}={value}")]
    words += [word for name in spec.forwarded_env for word in ("--env", name)]
    for source, target in spec.mounts:
        words += ["--mount", f"type=bind,src={source},dst={target},readonly"]
    for source, target in spec.writable_mounts:
        words += ["--mount", f"type=bind,src={source},dst={target}"]
    words += [word for folder in spec.tmpfs for word in ("--tmpfs", folder)]
    words += ["--read-only"] if spec.read_only else []
    words += ["--security-opt", "no-new-privileges"] if spec.no_new_privileges else []
    for port in spec.ports:
        words += ["--publish", f"127.0.0.1::{port}"]
    return [*words, *(["--interactive"] if spec.interactive else [])]
