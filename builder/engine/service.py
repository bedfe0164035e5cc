"""Containers that stay: a server outlives the command that started it, and the machine's reboot.

They carry no label of a process (``builder.engine.leftovers`` would remove them with it), and are
found again by labels of their own.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder import limits, process
from builder.engine.container import CONTAINER_ID, Container, ContainerState, RunSpec
from builder.engine.docker import DockerClient, parsed
from builder.engine.errors import explain

NEVER, UNLESS_STOPPED = "no", "unless-stopped"  # Docker's words for when it starts one again
LISTING = "listing the servers"
_GONE = ("no such container", "is already in progress")  # the second is said of a removal


@dataclass(frozen=True)
class ServiceSpec:
    """What to run, with as few rights as it gets along with: ``docker create`` as a value.

    The root file system is read-only but for ``tmpfs`` and ``writable_mounts``. ``publish`` is
    ``address:port:port inside``. ``mounts`` are (host path, path inside) and read-only.
    """

    image: str
    name: str
    command: tuple[str, ...]
    labels: Mapping[str, str]
    user: str
    publish: str
    workdir: str
    shm_size: str
    platform: str | None = None
    gpus: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[Path, str], ...] = ()
    writable_mounts: tuple[tuple[Path, str], ...] = ()
    tmpfs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServiceFacts:
    """A container that stays, as the engine tells of it; times are as Docker writes them."""

    id: str
    name: str
    image: str
    labels: Mapping[str, str]
    state: ContainerState
    created: str
    started: str
    restart: str


class Attached(Container):
    """A container that is there already: it is followed from its last start on, and stays.

    ``close`` ends what follows it; the container is not touched.
    """

    def __init__(self, docker: DockerClient, identity: str, image: str,
                 tail: int | None = None) -> None:
        """Follow from its last start on; ``tail`` is how many lines of the log are enough."""
        self._tail = tail
        self._docker, self.id, self.spec = docker, identity, RunSpec(image)
        self._children: list[subprocess.Popen[bytes]] = []
        self._closed = False
        self._begun = self.read(lambda entry: str(entry["State"]["StartedAt"]))

    def begun(self) -> str:
        """Return its last start."""
        return self._begun

    def log_options(self) -> Sequence[str]:
        """Return the limit of the log: its last start."""
        return ("--since", self._begun, *(
            () if self._tail is None else ("--tail", str(self._tail))))

    @contextmanager
    def stream(self, words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """Follow what a docker command prints, until ``close``."""
        with process.stream([*self._docker.words, *words]) as child:
            self._children.append(child)
            if self._closed:
                child.terminate()
            yield child

    def close(self) -> None:
        """End what follows the container."""
        self._closed = True
        for child in self._children:
            if child.poll() is None:
                child.terminate()

    def remove(self) -> None:
        """Leave the container: it is not this object's own."""

    def pids(self) -> frozenset[int]:
        """Return the process ids that the engine's machine knows its processes by."""
        result = self._docker.run("container", "top", self.id, "-eo", "pid", check=False,
                                  doing="listing the processes of a server")
        words = result.stdout.split() if result.returncode == 0 else []
        return frozenset(int(word) for word in words if word.isdigit())


def service_options(spec: ServiceSpec) -> list[str]:
    """Return the options of ``docker container create`` for a spec."""
    words = ["--pull", "never", "--init", "--name", spec.name, "--user", spec.user,
             "--workdir", spec.workdir, "--cap-drop", "ALL",
             "--security-opt", "no-new-privileges", "--read-only", "--log-driver", "local",
             "--restart", NEVER, "--shm-size", spec.shm_size, "--publish", spec.publish]
    for flag, value in {"--platform": spec.platform, "--gpus": spec.gpus}.items():
        words += [flag, value] if value is not None else []
    words += [word for item in sorted(spec.labels.items())
              for word in ("--label", "=".join(item))]
    words += [word for item in spec.env.items() for word in ("--env", "=".join(item))]
    words += [word for folder in spec.tmpfs for word in ("--tmpfs", folder)]
    for source, target in spec.mounts:
        words += ["--mount", f"type=bind,src={source},dst={target},readonly"]
    for source, target in spec.writable_mounts:
        words += ["--mount", f"type=bind,src={source},dst={target}"]
    return words


def create_service(docker: DockerClient, spec: ServiceSpec) -> str:
    """Create the container, not started; return its id."""
    return docker.ask(
        "container", "create", *service_options(spec), spec.image, *spec.command,
        read=lambda text: str(CONTAINER_ID.findall(text)[-1]), where=spec.name,
        doing=f"creating the container {spec.name}", timeout=limits.ENGINE_CHANGE_S)


def services(docker: DockerClient, label: str) -> tuple[ServiceFacts, ...]:
    """Return every container with a label, running or not, the oldest first."""
    found = docker.run("container", "ls", "--all", "--no-trunc", "--quiet", "--filter",
                       f"label={label}", doing=LISTING).stdout.split()
    if not found:
        return ()
    result = docker.run("container", "inspect", *found, doing=LISTING, check=False,
                        limit=limits.ENGINE_ANSWER_BYTES)
    _refuse(result, LISTING)  # one may be gone by now; the others are in the answer
    return parsed(result.stdout, lambda answer: tuple(sorted(
        map(_facts, json.loads(answer)), key=lambda facts: facts.created)), LISTING)


def _refuse(result: process.Result, doing: str, where: str = "") -> None:
    """Raise what a failure means, unless all it says is that a container is gone or going."""
    said = [line for line in result.stderr.lower().splitlines() if not line.startswith("warning:")]
    if result.returncode != 0 and not (
            said and all(any(word in line for word in _GONE) for line in said)):
        raise explain(result.stderr, doing, where)


def _facts(entry: Mapping[str, Any]) -> ServiceFacts:
    state = entry["State"]
    return ServiceFacts(
        id=str(entry["Id"]), name=str(entry["Name"]).lstrip("/"), image=str(entry["Image"]),
        labels={str(key): str(value) for key, value in entry["Config"]["Labels"].items()},
        state=ContainerState(str(state["Status"]), int(state["ExitCode"]),
                             bool(state["OOMKilled"]), str(state.get("Error", ""))),
        created=str(entry["Created"]), started=str(state["StartedAt"]),
        restart=str(entry["HostConfig"]["RestartPolicy"]["Name"]))


def start_service(docker: DockerClient, identity: str, name: str) -> None:
    """Start a container; raises EngineError, also where its port is taken."""
    docker.run("container", "start", identity, doing=f"starting {name}", where=name,
               timeout=limits.ENGINE_CHANGE_S)


def stop_service(docker: DockerClient, identity: str, name: str, grace: float) -> None:
    """Ask its program to end, and kill it after ``grace`` seconds; silent where it is gone."""
    doing = f"stopping {name}"
    _refuse(docker.run("container", "stop", "-t", f"{grace:.0f}", identity, check=False,
                       where=name, doing=doing, timeout=grace + limits.ENGINE_CHANGE_S),
            doing, name)


def remove_service(docker: DockerClient, identity: str, name: str) -> None:
    """Kill and remove a container; silent where it is gone."""
    doing = f"removing {name}"
    _refuse(docker.run("container", "rm", "--force", "--volumes", identity, check=False,
                       where=name, doing=doing, timeout=limits.ENGINE_CHANGE_S), doing, name)


def set_restart(docker: DockerClient, identity: str, name: str, policy: str) -> None:
    """Say when the engine starts a container again by itself: NEVER or UNLESS_STOPPED."""
    docker.run("container", "update", "--restart", policy, identity, where=name,
               doing=f"setting when {name} is started again")
