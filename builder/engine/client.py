"""The Docker engine: the only user of python-on-whales.

An ``Engine`` is one docker program and the engine that it speaks to (``DOCKER_HOST`` and docker
contexts are honoured, since the program itself reads them). Everything Docker says goes through
``builder.engine_errors``, so that callers see this project's errors only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from python_on_whales import DockerClient as WhaleClient
from python_on_whales.exceptions import DockerException, NoSuchImage

from builder import process
from builder.engine.container import Container, DockerClient, RunSpec, sweep
from builder.engine.errors import ENGINE_STEP, explain
from builder.errors import EngineError

__all__ = ["BakeResult", "Container", "Engine", "EngineInfo", "ImageFacts", "RemoteLayer",
           "RunSpec"]

LOG_LINES = 200  # kept of a build's log, for the error


@dataclass(frozen=True)
class EngineInfo:
    """What builds: the engine's own id, versions, its platform and its disk.

    ``buildkit`` names the engine as well, because the BuildKit inside some engines does not know
    its own version. ``platforms`` are those the builder can build and run. ``kernel``, ``system``,
    ``machine``, ``cpus`` and ``memory`` (bytes) are those of the machine that the engine runs on.
    """

    id: str
    version: str
    client: str
    buildx: str
    buildkit: str
    driver: str
    platform: str
    platforms: tuple[str, ...]
    data_root: Path
    kernel: str = ""
    system: str = ""
    machine: str = ""
    cpus: int = 0
    memory: int = 0


@dataclass(frozen=True)
class ImageFacts:
    """A local image: ``id`` is its configuration's digest, ``size`` its unpacked bytes."""

    id: str
    diff_ids: tuple[str, ...]
    labels: Mapping[str, str]
    repo_tags: tuple[str, ...]
    repo_digests: tuple[str, ...]
    size: int
    platform: str
    created: str
    env: Mapping[str, str]


@dataclass(frozen=True)
class RemoteLayer:
    """A layer in a registry: the digest and size of its compressed bytes."""

    digest: str
    size: int


@dataclass(frozen=True)
class BakeResult:
    """What one bake took: wall-clock seconds, bytes sent to the builder, buildx's metadata."""

    seconds: float
    sent: int
    metadata: Mapping[str, Any]


class Engine:
    """A docker client and the engine behind it; see ``connect``."""

    def __init__(self, binary: str, builder: str | None, host: str | None,
                 context: str | None = None) -> None:
        """Bind to a docker program; nothing is asked yet."""
        self.builder = builder
        self._whales = WhaleClient(client_call=[binary], client_type="docker", host=host,
                                   context=context)
        self.docker = DockerClient((binary, *(["--host", host] if host else []),
                                    *(["--context", context] if context else [])))
        self._swept = False

    @classmethod
    def connect(cls, builder: str | None = None, *, binary: str | None = None,
                host: str | None = None) -> Engine:
        """Return an engine that answers; raise EngineError, with what to do, where none does.

        ``builder`` is a buildx builder's name; ``host`` overrides ``DOCKER_HOST``. A builder that
        is another Docker engine (a context) is used for everything, since the images lie there;
        any other builds only, and this engine takes the image in.
        """
        program = binary or shutil.which("docker")
        if program is None:
            raise EngineError("the docker client is not installed", where="PATH",
                              next_step=ENGINE_STEP)
        engine = cls(program, builder, host)
        engine.docker.run("version", "--format", "{{.Server.Version}}", timeout=60,
                          doing="asking the Docker engine",
                          where=host or os.environ.get("DOCKER_HOST", "the default socket"))
        node = engine.node() if builder else {}
        if node.get("Driver") == "docker":
            return cls(program, None, None, node["Endpoint"])
        return engine

    def node(self) -> dict[str, str]:
        """Return what buildx says of the builder: driver, endpoint, platforms and versions."""
        words = [self.builder] if self.builder else []
        return _fields(self.docker.run("buildx", "inspect", *words, doing="asking for the "
                                       f"builder {self.builder or ''}".rstrip()).stdout)

    @cached_property
    def info(self) -> EngineInfo:
        """Return versions, platform and data root; raises EngineError without buildx."""
        said = json.loads(self.docker.run("version", "--format", "{{json .}}",
                                          doing="asking the engine's version").stdout)
        system = json.loads(self.docker.run("info", "--format", "{{json .}}",
                                            doing="asking about the engine").stdout)
        buildx = self.docker.run("buildx", "version", doing="asking for buildx").stdout.split()
        node = self.node()
        version = said["Server"]["Version"]
        buildkit = node.get("BuildKit version") or node.get("Buildkit") or "unknown"
        inside = node.get("Driver", "docker") == "docker"
        return EngineInfo(
            id=str(system.get("ID", "")), version=version, client=said["Client"]["Version"],
            buildx=buildx[1] if len(buildx) > 1 else "unknown",
            buildkit=f"{buildkit} (Docker {version})" if inside else buildkit,
            driver=node.get("Driver", "docker"),
            platform=f"{said['Server']['Os']}/{said['Server']['Arch']}",
            platforms=tuple(dict.fromkeys(
                re.findall(r"linux/[a-z0-9]+", node.get("Platforms", "")))),
            data_root=Path(system["DockerRootDir"]), kernel=system.get("KernelVersion", ""),
            system=system.get("OperatingSystem", ""), machine=system.get("Architecture", ""),
            cpus=int(system.get("NCPU", 0)), memory=int(system.get("MemTotal", 0)),
        )

    # -- images -------------------------------------------------------------------------------

    def inspect(self, reference: str) -> ImageFacts | None:
        """Return the facts of a local image; None where there is no such image."""
        try:
            image = self._whales.image.inspect(reference)
        except NoSuchImage:
            return None
        except DockerException as error:
            raise _explained(error, f"inspecting {reference}", reference) from error
        config, rootfs = image.config, image.root_fs
        pairs = (item.partition("=") for item in (config.env or []))
        return ImageFacts(
            id=image.id, diff_ids=tuple(rootfs.layers or ()), labels=dict(config.labels or {}),
            repo_tags=tuple(image.repo_tags or ()), repo_digests=tuple(image.repo_digests or ()),
            size=int(image.size), platform=f"{image.os}/{image.architecture}",
            created=str(image.created), env={key: value for key, _, value in pairs})

    def diff_ids(self) -> frozenset[str]:
        """Return the digests of every layer that some local image has."""
        with _explaining("listing images", ""):
            names = {image.id for image in self._whales.image.list()}
        found = (self.inspect(name) for name in names)  # one may be gone since
        return frozenset(layer for image in found if image for layer in image.diff_ids)

    def tag(self, reference: str, new: str) -> None:
        """Give a local image another name."""
        with _explaining(f"tagging {new}", new):
            self._whales.image.tag(reference, new)

    def load(self, archive: Path) -> None:
        """Take an image in from an archive, under the name that is written in it."""
        with _explaining(f"loading {archive.name}", str(archive)):
            self._whales.image.load(archive, quiet=True)

    def remote_digest(self, reference: str) -> str | None:
        """Ask the registry for a manifest's digest; None where it has no such image."""
        found = re.search(r"sha256:[0-9a-f]{64}",
                          self._ask(reference, "--format", "{{.Manifest.Digest}}") or "")
        return found[0] if found else None

    def remote_layers(self, reference: str) -> tuple[RemoteLayer, ...] | None:
        """Ask the registry for the layers of an image; None where it has no such image."""
        said = self._ask(reference, "--raw")
        if said is None:
            return None
        layers = json.loads(said).get("layers", [])
        return tuple(RemoteLayer(layer["digest"], int(layer["size"])) for layer in layers)

    def _ask(self, reference: str, *options: str) -> str | None:
        """Ask the registry for something of an image; None where it has no such image."""
        doing = f"asking the registry for {reference}"
        said = self.docker.run("buildx", "imagetools", "inspect", reference, *options,
                               doing=doing, check=False, timeout=120)
        if said.returncode == 0:
            return said.stdout
        if re.search(r"not found|manifest unknown|name unknown", said.stderr, re.IGNORECASE):
            return None
        raise explain(said.stderr, doing, reference)

    def push(self, reference: str) -> str:
        """Push a local image; return its manifest digest (``sha256:…``) in the registry."""
        said: list[str] = []
        with _explaining(f"pushing {reference}", reference):
            lines = self._whales.image.push(reference, stream_logs=True)
            said = [str(line, "utf-8", "replace") for _, line in lines or ()]
        digest = re.search(r"digest: (sha256:[0-9a-f]{64})", "".join(said))
        if digest is None:
            raise EngineError("the engine does not say which digest it pushed", where=reference)
        return digest[1]

    def pull(self, reference: str, platform: str | None = None) -> ImageFacts:
        """Pull an image and return its facts; raises NetworkError where it cannot be had."""
        with _explaining(f"pulling {reference}", reference):
            self._whales.image.pull(reference, quiet=True, platform=platform)
        facts = self.inspect(reference)
        if facts is None:
            raise EngineError("a pulled image is not there", where=reference)
        return facts

    def remove(self, reference: str) -> None:
        """Remove a local image's name, and the image when that was its last; silent if gone."""
        with _explaining(f"removing {reference}", reference):
            try:
                self._whales.image.remove(reference, force=True)
            except NoSuchImage:
                return

    # -- builds -------------------------------------------------------------------------------

    def bake(self, definition: Mapping[str, Any], targets: tuple[str, ...] = (), *,
             load: bool = False, push: bool = False, cache: bool = True,
             on_line: Callable[[str], None] | None = None) -> BakeResult:
        """Run one bake definition; ``on_line`` is given each line of the plain log.

        Raises EngineError, DiskError or NetworkError with the last lines of the build.
        """
        tail: deque[str] = deque(maxlen=LOG_LINES)
        started, sent = time.monotonic(), 0
        with tempfile.TemporaryDirectory(prefix="sparkyard-bake-") as folder:
            file, metadata = Path(folder, "bake.json"), Path(folder, "metadata.json")
            file.write_text(json.dumps(definition, indent=1), encoding="utf-8")
            with _explaining(f"building {', '.join(targets) or 'the image'}", "", tail):
                for raw in self._whales.buildx.bake(
                        list(targets), builder=self.builder, files=[file], load=load, push=push,
                        cache=cache, progress="plain", metadata_file=metadata, stream_logs=True,
                        # Newer buildx asks before it reads outside the working folder; the
                        # store lies there by design.
                        variables={"BUILDX_BAKE_ENTITLEMENTS_FS": "0"}):
                    line = str(raw).rstrip("\n")
                    tail.append(line)
                    sent = max(sent, sent_bytes(line))
                    if on_line:
                        on_line(line)
            said = json.loads(metadata.read_text("utf-8")) if metadata.is_file() else {}
        return BakeResult(time.monotonic() - started, sent, said)

    # -- containers ---------------------------------------------------------------------------

    def create(self, spec: RunSpec) -> Container:
        """Create a container, not started; use it in a ``with`` block, which removes it."""
        if not self._swept:
            self._swept = True
            sweep(self.docker)
        return Container(self.docker, spec)

    @contextmanager
    def start(self, spec: RunSpec) -> Iterator[Container]:
        """Run a container in the background for the length of a ``with`` block."""
        with self.create(spec) as container:
            container.start()
            yield container

    def run_once(self, spec: RunSpec, *, stdin: bytes | None = None,
                 timeout: float | None = None) -> process.Result:
        """Run a container to its end and remove it; its exit status is in the result.

        Raises CommandError (status 124) after ``timeout`` seconds.
        """
        with self.create(_with_stdin(spec) if stdin is not None else spec) as container:
            return container.attach(stdin, timeout)

    def sweep(self) -> int:
        """Remove containers that killed runs of this machine left; return how many."""
        return sweep(self.docker)


def sent_bytes(line: str) -> int:
    """Read ``#5 transferring context: 1.60GB 9.5s`` of a build's log as bytes; 0 for others."""
    found = re.search(r"transferring \S+: ([\d.]+)(k|M|G)?B\b", line)
    if not found:
        return 0
    return int(float(found[1]) * {None: 1, "k": 10**3, "M": 10**6, "G": 10**9}[found[2]])


def _with_stdin(spec: RunSpec) -> RunSpec:
    return replace(spec, interactive=True)


def _fields(text: str) -> dict[str, str]:
    """Read ``Key: value`` lines; the last of a key wins (a builder's node comes after it)."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}


def _explained(error: DockerException, doing: str, where: str,
               tail: deque[str] | None = None) -> Exception:
    text = "\n".join(tail) if tail else (error.stderr or error.stdout or "")
    return explain(text, doing, where)


@contextmanager
def _explaining(doing: str, where: str, tail: deque[str] | None = None) -> Iterator[None]:
    try:
        yield
    except DockerException as error:
        raise _explained(error, doing, where, tail) from error
