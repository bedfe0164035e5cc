"""The Docker engine: images, builds and containers, all through the docker program.

An ``Engine`` is one docker program and the engine that it speaks to (``DOCKER_HOST`` and docker
contexts are honoured, since the program itself reads them). Builds and changes of images go through
python-on-whales. It has no limits of its own and believes any answer, so its calls run under
``timeout``, and questions and transfers go through ``builder.engine.docker``, which checks them.
Every failure is explained (``builder.engine.errors``): callers see this project's errors only.
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
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from python_on_whales import DockerClient as WhalesClient
from python_on_whales.exceptions import DockerException, NoSuchImage

from builder import limits, process
from builder.engine.container import Container, RunSpec
from builder.engine.docker import LOG_LINES, DockerClient, hung, parsed
from builder.engine.errors import ENGINE_STEP, explain
from builder.engine.facts import (
    DIGEST,
    BakeResult,
    EngineInfo,
    ImageFacts,
    RemoteLayer,
    engine_info,
    read_fields,
    read_images,
    read_layers,
    sent_bytes,
)
from builder.engine.leftovers import sweep
from builder.engine.network import network
from builder.errors import EngineError
from builder.process_group import tied

__all__ = ["BakeResult", "Container", "Engine", "EngineInfo", "ImageFacts", "RemoteLayer",
           "RunSpec", "sent_bytes"]

NO_IMAGE = re.compile(r"no such (image|object)", re.IGNORECASE)
TIMED_OUT = (124, 137)  # what ``timeout`` ends with: it ended the program, or had to kill it
NOT_IN_REGISTRY = re.compile(r"not found|manifest unknown|name unknown", re.IGNORECASE)


class Engine:
    """A docker client and the engine behind it; see ``connect``."""

    def __init__(self, binary: str, builder: str | None, host: str | None,
                 context: str | None = None, patience: float = limits.ENGINE_ASK_S) -> None:
        """Bind to a docker program; nothing is asked yet."""
        self.builder = builder
        self.docker = DockerClient((binary, *(["--host", host] if host else []),
                                    *(["--context", context] if context else [])), patience)
        self._swept = False

    @classmethod
    def connect(cls, builder: str | None = None, *, binary: str | None = None,
                host: str | None = None, patience: float = limits.ENGINE_ASK_S) -> Engine:
        """Return an engine that answers; raise EngineError, with what to do, where none does.

        ``builder`` is a buildx builder's name; ``host`` overrides ``DOCKER_HOST``. A builder that
        is another Docker engine (a context) is used for everything, since the images lie there;
        any other builds only, and this engine takes the image in. ``patience`` limits each
        question in seconds.
        """
        program = binary or shutil.which("docker")
        if program is None:
            raise EngineError("the docker client is not installed", where="PATH",
                              next_step=ENGINE_STEP)
        engine = cls(program, builder, host, patience=patience)
        engine.docker.ask("version", "--format", "{{.Server.Version}}", read=_version,
                          doing="asking the Docker engine for its version",
                          where=host or os.environ.get("DOCKER_HOST", "the default socket"))
        node = engine.node() if builder else {}
        if node.get("Driver") == "docker":
            return cls(program, None, None, node.get("Endpoint"), patience)
        return engine

    def node(self) -> dict[str, str]:
        """Return what buildx says of the builder: driver, endpoint, platforms and versions."""
        words = [self.builder] if self.builder else []
        return self.docker.ask("buildx", "inspect", *words, read=read_fields, doing="asking buildx "
                               f"about the builder {self.builder or ''}".rstrip())

    @cached_property
    def info(self) -> EngineInfo:
        """Return versions, platform and data root; raises EngineError without buildx."""
        doing = "asking the Docker engine about itself"
        version = self.docker.ask("version", "--format", "{{json .}}", read=json.loads,
                                  doing=doing)
        system = self.docker.ask("info", "--format", "{{json .}}", read=json.loads, doing=doing)
        buildx = self.docker.run("buildx", "version", doing="asking buildx for its version")
        words, node = buildx.stdout.split(), self.node()
        return parsed(json.dumps([version, system]), lambda _: engine_info(
            version, system, words[1] if len(words) > 1 else "unknown", node), doing)

    # -- images -------------------------------------------------------------------------------

    def inspect(self, reference: str) -> ImageFacts | None:
        """Return the facts of a local image; None where there is no such image."""
        doing = f"inspecting the image {reference}"
        result = self.docker.run("image", "inspect", reference, doing=doing, check=False,
                                 limit=limits.ENGINE_ANSWER_BYTES)
        if result.returncode == 0:
            return parsed(result.stdout, lambda text: read_images(text)[0], doing, reference)
        if NO_IMAGE.search(result.stderr):
            return None
        raise explain(result.stderr, doing, reference)

    def labelled(self, repository: str, name: str, value: str) -> tuple[str, ...]:
        """Return the tags of a repository whose local images carry a label, the newest first."""
        return self.docker.ask(
            "image", "ls", "--filter", f"label={name}={value}", "--filter",
            f"reference={repository}", "--format", "{{.Repository}}:{{.Tag}}",
            read=lambda text: tuple(line for line in text.split() if not line.endswith(":<none>")),
            doing=f"listing the images of {repository}", where=repository)

    def image_document(self, reference: str) -> dict[str, Any] | None:
        """Return all that the engine says of a local image, as JSON; None where there is none."""
        doing = f"inspecting the image {reference}"
        result = self.docker.run("image", "inspect", reference, doing=doing, check=False,
                                 limit=limits.ENGINE_ANSWER_BYTES)
        if result.returncode == 0:
            return parsed(result.stdout, lambda text: dict(json.loads(text)[0]), doing, reference)
        if NO_IMAGE.search(result.stderr):
            return None
        raise explain(result.stderr, doing, reference)

    def history(self, reference: str) -> tuple[str, ...]:
        """Return what made each layer of a local image, the newest first."""
        return self.docker.ask(
            "image", "history", "--no-trunc", "--format", "{{json .CreatedBy}}", reference,
            read=lambda text: tuple(str(json.loads(line)) for line in text.splitlines() if line),
            doing=f"reading the history of {reference}", where=reference)

    def save(self, reference: str, archive: Path) -> None:
        """Write a local image to an archive, as ``docker save`` does."""
        self.docker.run("image", "save", "--output", str(archive), reference,
                        doing=f"saving {reference}", where=reference,
                        timeout=limits.ENGINE_TRANSFER_S)

    def diff_ids(self) -> frozenset[str]:
        """Return the digests of every layer that some local image has."""
        doing = "listing the engine's images"
        names = sorted(set(DIGEST.findall(self.docker.run("image", "ls", "--quiet", "--no-trunc",
                                                          doing=doing).stdout)))
        if not names:
            return frozenset()
        # One may have been removed since: then the status is 1, and the others are in the answer.
        result = self.docker.run("image", "inspect", *names, doing=doing, check=False)
        if result.returncode != 0 and not NO_IMAGE.search(result.stderr):
            raise explain(result.stderr, doing)
        images = parsed(result.stdout, read_images, doing)
        return frozenset(layer for image in images for layer in image.diff_ids)

    def tag(self, reference: str, new: str) -> None:
        """Give a local image another name."""
        with _explaining(f"tagging {new}", new), self._whales(limits.ENGINE_CHANGE_S) as whales:
            whales.image.tag(reference, new)

    def load(self, archive: Path) -> None:
        """Take an image in from an archive, under the name that is written in it."""
        with (_explaining(f"loading {archive.name}", str(archive)),
              self._whales(limits.ENGINE_TRANSFER_S) as whales):
            whales.image.load(archive, quiet=True)

    def remote_digest(self, reference: str) -> str | None:
        """Ask the registry for a manifest's digest; None where it has no such image."""
        answer = self._ask_registry(reference, "--format", "{{.Manifest.Digest}}")
        return None if answer is None else parsed(
            answer, _last_digest, _asking(reference), reference)

    def remote_layers(self, reference: str) -> tuple[RemoteLayer, ...] | None:
        """Ask the registry for the layers of an image; None where it has no such image."""
        answer = self._ask_registry(reference, "--raw")
        return None if answer is None else parsed(answer, read_layers, _asking(reference),
                                                  reference)

    def _ask_registry(self, reference: str, *options: str) -> str | None:
        """Ask the registry for something of an image; None where it has no such image."""
        result = self.docker.run("buildx", "imagetools", "inspect", reference, *options,
                                 doing=_asking(reference), where=reference, check=False,
                                 timeout=limits.ENGINE_REGISTRY_S)
        if result.returncode == 0:
            return result.stdout
        if NOT_IN_REGISTRY.search(result.stderr):
            return None
        raise explain(result.stderr, _asking(reference), reference)

    def push(self, reference: str) -> str:
        """Push a local image; return its manifest digest (``sha256:…``) in the registry."""
        doing = f"pushing {reference}"
        lines = [line for line in self.docker.follow("image", "push", reference, doing=doing,
                                                     where=reference) if "digest: " in line]
        return parsed("\n".join(lines), _last_digest, doing, reference)

    def pull(self, reference: str, platform: str | None = None,
             on_line: Callable[[str], None] | None = None) -> ImageFacts:
        """Pull an image and return its facts; raises NetworkError where it cannot be had.

        ``on_line`` is given each line that docker prints: one for each state of a layer.
        """
        words = ["--platform", platform] if platform else []
        for line in self.docker.follow("image", "pull", *words, reference, where=reference,
                                       doing=f"pulling {reference}"):
            if on_line:
                on_line(line)
        facts = self.inspect(reference)
        if facts is None:
            raise EngineError("the engine reported a complete pull, but does not have the image",
                              where=reference, next_step="run the same command again")
        return facts

    def remove(self, reference: str) -> None:
        """Remove a local image's name, and the image when that was its last; silent if gone."""
        with (_explaining(f"removing the image {reference}", reference), suppress(NoSuchImage),
              self._whales(limits.ENGINE_CHANGE_S) as whales):
            whales.image.remove(reference, force=True)

    # -- builds -------------------------------------------------------------------------------

    def bake(self, definition: Mapping[str, Any], targets: tuple[str, ...] = (), *,
             cache: bool = True, on_line: Callable[[str], None] | None = None,
             load: bool = True) -> BakeResult:
        """Run one bake definition and load its images into the engine.

        Without ``load`` its results go where each target's ``output`` says.
        ``on_line`` is given each line of the plain log. Raises EngineError, DiskError or
        NetworkError with the last lines of the build.
        """
        started, sent = time.monotonic(), 0
        tail: deque[str] = deque(maxlen=LOG_LINES)
        doing = f"building {', '.join(targets) or 'the image'}"
        with tempfile.TemporaryDirectory(prefix="sparkyard-bake-") as folder:
            file, metadata = Path(folder, "bake.json"), Path(folder, "metadata.json")
            file.write_text(json.dumps(definition, indent=1), encoding="utf-8")
            with (_explaining(doing, "", tail),
                  self._whales(limits.ENGINE_TRANSFER_S) as whales):
                for raw in whales.buildx.bake(
                        list(targets), builder=self.builder, files=[file], load=load, cache=cache,
                        progress="plain", metadata_file=metadata, stream_logs=True,
                        # Newer buildx asks before it reads outside the working folder; the
                        # store lies there by design.
                        variables={"BUILDX_BAKE_ENTITLEMENTS_FS": "0"}):
                    line = str(raw).rstrip("\n")
                    tail.append(line)
                    sent = max(sent, sent_bytes(line))
                    if on_line:
                        on_line(line)
            text = metadata.read_text("utf-8") if metadata.is_file() else "{}"
        return BakeResult(time.monotonic() - started, sent, parsed(text, json.loads, doing))

    @contextmanager
    def _whales(self, seconds: float) -> Iterator[WhalesClient]:
        """Give python-on-whales for this engine; its calls end with the block, after ``seconds``.

        It leaves what it started to itself where it is interrupted.
        """
        with tied(seconds) as words:
            yield WhalesClient(client_call=[*words, *self.docker.words], client_type="docker")

    # -- containers ---------------------------------------------------------------------------

    def create(self, spec: RunSpec) -> Container:
        """Create a container, not started; use it in a ``with`` block, which removes it."""
        if not self._swept:
            self._swept = True
            self.sweep()
        return Container(self.docker, spec)

    @contextmanager
    def start(self, spec: RunSpec) -> Iterator[Container]:
        """Run a container in the background for the length of a ``with`` block."""
        with self.create(spec) as container:
            container.start()
            yield container

    def network(self) -> AbstractContextManager[str]:
        """Make a network of containers for the length of a ``with`` block; its name is given."""
        return network(self.docker)

    def run_once(self, spec: RunSpec, *, stdin: bytes | None = None,
                 timeout: float = limits.ENGINE_EXEC_S) -> process.Result:
        """Run a container to its end and remove it; its exit status is in the result.

        Raises EngineError after ``timeout`` seconds.
        """
        if stdin is not None:
            spec = replace(spec, interactive=True)
        with self.create(spec) as container:
            return container.attach(stdin, timeout)

    def sweep(self) -> int:
        """Remove what killed runs of this machine left; return how many containers and networks."""
        return sweep(self.docker)


@contextmanager
def _explaining(doing: str, where: str, tail: deque[str] | None = None) -> Iterator[None]:
    """Turn what python-on-whales raises into our own errors; ``tail`` is the log of a build."""
    try:
        yield
    except DockerException as error:
        if error.return_code in TIMED_OUT:
            raise hung(doing, "it took too long", where) from error
        text = "\n".join(tail) if tail else error.stderr or error.stdout or ""
        raise explain(text, doing, where) from error


def _asking(reference: str) -> str:
    return f"asking the registry for {reference}"


def _last_digest(text: str) -> str:
    return str(DIGEST.findall(text)[-1])


def _version(text: str) -> str:
    version = text.strip()
    if not version[:1].isdigit():
        raise ValueError(version)
    return version
