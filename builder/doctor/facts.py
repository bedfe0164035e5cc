"""Raw text into facts: what ``nvidia-smi``, ``docker info``, ``ibstat`` and ``/proc`` say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from builder.doctor.nvidia import (
    GpuProcess,
    GpuState,
    number,
    parse_cuda,
    parse_gpus,
    parse_processes,
)
from builder.doctor.reading import Folder, RawHost
from builder.model import Frozen

KIB = 1024
PORT = 8000  # what recipes serve on
LISTENS = "0A"  # the state of a listening socket in /proc/net/tcp


class Docker(Frozen):
    """What ``docker info`` says."""

    version: str
    runtimes: tuple[str, ...]
    cdi_folders: tuple[str, ...]
    data_root: str
    snap: bool
    error: str


class CudaMemory(Frozen):
    """What CUDA itself says it can get (bytes)."""

    free: int
    total: int


class Adapter(Frozen):
    """An RDMA adapter of ``ibstat``; ``rate`` in Gb/s."""

    name: str
    state: str
    rate: int
    firmware: str


class Link(Frozen):
    """Which network device an RDMA adapter is, and whether its cable has a link."""

    adapter: str
    device: str
    up: bool


class Gid(Frozen):
    """An address of an RDMA adapter at an index; ``ipv4`` is empty for one of IPv6."""

    adapter: str
    index: int
    kind: str
    ipv4: str


class HostFacts(Frozen):
    """Everything the doctor judges; None where it could not be seen."""

    machine: str
    kernel: str
    user: str
    groups: tuple[str, ...]
    gpus: tuple[GpuState, ...] | None
    processes: tuple[GpuProcess, ...] | None
    driver_cuda: str | None
    docker: Docker | None
    cdi: tuple[str, ...]
    adapters: tuple[Adapter, ...] | None
    memory: dict[str, int]
    swap: int
    earlyoom: bool
    desktop: bool
    ollama: bool
    port_taken: bool
    memlock: int
    folders: tuple[Folder, ...]
    links: tuple[Link, ...] = ()
    addresses: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    gids: tuple[Gid, ...] = ()
    rdma_devices: bool = False
    gpu_fault: str = ""
    cuda_memory: CudaMemory | None = None


def facts_of(raw: RawHost) -> HostFacts:
    """Parse what was read; text in an unknown form counts as not seen."""
    texts = raw.texts
    return HostFacts(
        machine=raw.machine, kernel=raw.kernel, user=raw.user, groups=raw.groups,
        gpus=parse_gpus(texts.get("gpus"), texts.get("gpu_details")), gpu_fault=raw.gpu_fault,
        processes=parse_processes(texts.get("gpu_processes"), raw.cgroups, texts.get("containers")),
        driver_cuda=parse_cuda(texts.get("gpu_summary"), texts.get("gpu_details")),
        cuda_memory=parse_cuda_memory(texts.get("cuda_memory")),
        docker=parse_docker(texts.get("docker")), cdi=raw.cdi,
        adapters=parse_ibstat(texts.get("ibstat")),
        memory=parse_meminfo(texts.get("meminfo") or ""),
        swap=parse_swaps(texts.get("swaps") or ""),
        earlyoom=bool(texts.get("earlyoom")), desktop=bool(texts.get("desktop")),
        ollama=bool(texts.get("ollama")),
        port_taken=listens(texts.get("tcp"), texts.get("tcp6")), memlock=raw.memlock,
        folders=raw.folders, links=parse_links(texts.get("ibdev2netdev")),
        addresses=parse_addresses(texts.get("addresses")), rdma_devices=raw.rdma_devices,
        gids=tuple(Gid(adapter=adapter, index=index, kind=kind, ipv4=_ipv4(gid))
                   for adapter, index, kind, gid in raw.gids))


def parse_cuda_memory(text: str | None) -> CudaMemory | None:
    """Read ``free total`` of our own question to CUDA; None where CUDA does not answer."""
    words = (text or "").split()
    if len(words) != 2 or not all(word.isdecimal() and len(word) < 20 for word in words):
        return None
    return CudaMemory(free=int(words[0]), total=int(words[1]))


def parse_docker(text: str | None) -> Docker | None:
    """Read ``docker info`` as JSON; ``error`` is what the client says where no engine answers."""
    try:
        raw: Any = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    version, errors = str(raw.get("ServerVersion") or ""), _texts(raw.get("ServerErrors"))
    if not version and not errors:
        return None  # no engine answered, and the client does not say why
    root, runtimes = str(raw.get("DockerRootDir", "")), raw.get("Runtimes")
    return Docker(version=version,
                  runtimes=tuple(sorted(runtimes)) if isinstance(runtimes, dict) else (),
                  cdi_folders=_texts(raw.get("CDISpecDirs")), data_root=root,
                  snap=root.startswith("/var/snap/"), error="; ".join(errors))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def parse_ibstat(text: str | None) -> tuple[Adapter, ...] | None:
    """Read ``ibstat``; one adapter has one port on a Spark."""
    if text is None:
        return None
    adapters = []
    for block in re.split(r"^CA '", text, flags=re.MULTILINE)[1:]:
        name = block.partition("'")[0]
        adapters.append(Adapter(
            name=name, state=_field(block, "State"), rate=int(number(_field(block, "Rate")) or 0),
            firmware=_field(block, "Firmware version")))
    return tuple(adapters)


def _field(block: str, key: str) -> str:
    match = re.search(rf"^\s*{key}: (\S+)", block, flags=re.MULTILINE)
    return match[1] if match else ""


def parse_links(text: str | None) -> tuple[Link, ...]:
    """Read ``ibdev2netdev``: ``rocep1s0f1 port 1 ==> enp1s0f1np1 (Up)``."""
    rows = re.findall(r"^(\S+) +port +\d+ +==> +(\S+) +\((\w+)\)", text or "", flags=re.MULTILINE)
    return tuple(Link(adapter=adapter, device=device, up=state == "Up")
                 for adapter, device, state in rows)


def parse_addresses(text: str | None) -> dict[str, tuple[str, ...]]:
    """Read ``ip -json -4 address``: the IPv4 addresses of each network device."""
    try:
        rows: Any = json.loads(text or "[]")
        return {str(row["ifname"]): tuple(str(one["local"]) for one in row["addr_info"]
                                          if one.get("family") == "inet")
                for row in rows if row.get("ifname")}
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return {}


def _ipv4(gid: str) -> str:
    """Return the IPv4 address in a GID (``0000:…:ffff:c0a8:b10b``), empty where there is none."""
    parts = gid.split(":")
    if len(parts) != 8 or parts[5].lower() != "ffff" or any(set(part) - {"0"}
                                                            for part in parts[:5]):
        return ""
    try:
        number = int(parts[6] + parts[7], 16)
    except ValueError:
        return ""
    return ".".join(str(number >> shift & 0xFF) for shift in (24, 16, 8, 0))


def parse_meminfo(text: str) -> dict[str, int]:
    """Read ``/proc/meminfo`` into bytes."""
    return {key: int(value) * KIB
            for key, value in re.findall(r"^(\w+):\s+(\d+) kB", text, flags=re.MULTILINE)}


def parse_swaps(text: str) -> int:
    """Return the bytes of swap that are on, from ``/proc/swaps``; zram counts, too."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return sum(int(row[2]) * KIB for row in rows if len(row) >= 3 and row[2].isdecimal())


def listens(*tables: str | None) -> bool:
    """Say whether a program listens on ``PORT``, from ``/proc/net/tcp`` and ``tcp6``."""
    rows = [line.split() for text in tables for line in (text or "").splitlines()]
    return any(len(row) > 3 and row[3] == LISTENS and row[1].endswith(f":{PORT:04X}")
               for row in rows)
