"""What the engine says of itself, of images and of builds, read from Docker's JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


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
    entrypoint: tuple[str, ...] = ()


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


def engine_info(version: Mapping[str, Any], system: Mapping[str, Any], buildx: str,
                node: Mapping[str, str]) -> EngineInfo:
    """Put together ``docker version``, ``docker info``, buildx's version and its builder."""
    server = str(version["Server"]["Version"])
    buildkit = node.get("BuildKit version") or node.get("Buildkit") or "unknown"
    driver = node.get("Driver", "docker")
    return EngineInfo(
        id=str(system.get("ID", "")), version=server, client=str(version["Client"]["Version"]),
        buildx=buildx, buildkit=f"{buildkit} (Docker {server})" if driver == "docker" else buildkit,
        driver=driver, platform=f"{version['Server']['Os']}/{version['Server']['Arch']}",
        platforms=tuple(dict.fromkeys(re.findall(r"linux/[a-z0-9]+", node.get("Platforms", "")))),
        data_root=Path(system["DockerRootDir"]), kernel=str(system.get("KernelVersion", "")),
        system=str(system.get("OperatingSystem", "")), machine=str(system.get("Architecture", "")),
        cpus=int(system.get("NCPU", 0)), memory=int(system.get("MemTotal", 0)))


def read_images(text: str) -> tuple[ImageFacts, ...]:
    """Read the answer of ``docker image inspect``: a list of images."""
    return tuple(_image(entry) for entry in json.loads(text))


def _image(entry: Mapping[str, Any]) -> ImageFacts:
    config = entry.get("Config") or {}
    labels = config.get("Labels") or {}
    pairs = (item.partition("=") for item in _texts(config.get("Env")))
    return ImageFacts(
        id=DIGEST.findall(entry["Id"])[0],
        diff_ids=_texts((entry.get("RootFS") or {}).get("Layers")), labels=dict(zip(
            _texts(labels), _texts(labels.values()), strict=True)),
        repo_tags=_texts(entry.get("RepoTags")),
        repo_digests=_texts(entry.get("RepoDigests")), size=int(entry["Size"]),
        platform=f"{entry['Os']}/{entry['Architecture']}", created=str(entry.get("Created", "")),
        env={key: value for key, _, value in pairs},
        entrypoint=_texts(config.get("Entrypoint")))


def _texts(values: Iterable[Any] | None) -> tuple[str, ...]:
    """Return the texts of an answer; TypeError where one is no text."""
    found = tuple(values or ())
    if isinstance(values, str) or not all(isinstance(one, str) for one in found):
        raise TypeError("not a list of texts")
    return found


def read_layers(text: str) -> tuple[RemoteLayer, ...]:
    """Read the layers of an image's manifest."""
    layers = json.loads(text).get("layers", ())
    digests = _texts([layer["digest"] for layer in layers])
    return tuple(RemoteLayer(digest, int(layer["size"]))
                 for digest, layer in zip(digests, layers, strict=True))


def read_fields(text: str) -> dict[str, str]:
    """Read ``Key: value`` lines; the last of a key wins (a builder's node comes after it)."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}


def sent_bytes(line: str) -> int:
    """Read ``#5 transferring context: 1.60GB 9.5s`` of a build's log as bytes; 0 for others."""
    transfer = re.search(r"transferring \S+: (\d+(?:\.\d+)?)(k|M|G)?B\b", line)
    if not transfer:
        return 0
    return int(float(transfer[1]) * {None: 1, "k": 10**3, "M": 10**6, "G": 10**9}[transfer[2]])
