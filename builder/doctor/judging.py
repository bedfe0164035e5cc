"""Facts of a host against what serving a model needs: one line a check, with reason and remedy.

A check that lacks its facts says ``unseen`` and never passes. Words, remedies and sources are data
(``rules.toml``); which facts lead to which verdict is code, since figures are compared.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path

import tomli

from builder import console
from builder.doctor.facts import PORT, HostFacts
from builder.doctor.nvidia import GB10, GpuProcess, Slowdown
from builder.doctor.reading import Folder
from builder.model import Frozen

DRIVER = 580  # the first branch with CUDA 13.0
BAD_KERNELS = ("7.0.0-1019-nvidia",)
LOW_CLOCK_MHZ, BUSY_PERCENT = 1000, 80  # stuck units were seen at 500 to 890 MHz and 94 to 96 %
CACHE_SHARE = 0.2  # of all memory in the page cache, from which on CUDA's figure misleads
START_BYTES = 9_700_000_000  # that starts took before vLLM looked: 8 to 9 GiB on some Sparks
HELD_SHARE = 0.15  # of all memory that neither a process nor the cache explains
ROCE = "RoCE v2"  # the kind of GID that goes through switches and that NCCL uses
GB = 1_000_000_000


class Verdict(StrEnum):
    """What a check comes to."""

    OK = "ok"
    WARNING = "warning"
    UNFIT = "unfit"
    UNSEEN = "unseen"


class Words(Frozen):
    """Why a check matters, what to do, and where that was seen."""

    reason: str
    remedy: str
    source: str


class Line(Frozen):
    """One check of the doctor; ``remedy`` is empty where nothing needs to be done."""

    check: str
    verdict: Verdict
    seen: str
    reason: str = ""
    remedy: str = ""
    source: str = ""


class Need(Frozen):
    """What is to be served: its share of memory, the image's CUDA, bytes of image and model.

    Where nothing is named to be served, ``build`` are the bytes that a build of ``cell`` takes.
    """

    name: str = ""
    memory_share: float = 0.0
    cuda: str = ""
    image: int = 0
    model: int = 0
    build: int = 0
    cell: str = ""


@cache
def rules() -> dict[str, Words]:
    """Return the words of each check."""
    raw = tomli.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
    return {name: Words.model_validate(words) for name, words in raw.items()}


def judge(facts: HostFacts, need: Need) -> tuple[Line, ...]:
    """Return every check's line, in the order in which a start would meet its fault."""
    return tuple(line for check in CHECKS for line in check(facts, need))


def _line(check: str, verdict: Verdict, seen: str, **places: str) -> Line:
    words = rules()[check]
    if verdict in (Verdict.OK, Verdict.UNSEEN):
        return Line(check=check, verdict=verdict, seen=seen)
    return Line(check=check, verdict=verdict, seen=seen, reason=words.reason,
                remedy=words.remedy.format(**places) if places else words.remedy,
                source=words.source)


def _when(fault: bool, worst: Verdict = Verdict.UNFIT) -> Verdict:
    return worst if fault else Verdict.OK


def _machine(facts: HostFacts, need: Need) -> Iterator[Line]:
    spark = facts.machine == "aarch64"
    seen = facts.machine + ("" if spark else ", which runs the CPU images only")
    yield _line("machine", _when(bool(need.cuda) and not spark), seen)
    yield _line("kernel", _when(facts.kernel in BAD_KERNELS, Verdict.WARNING), facts.kernel)


def _gpu(facts: HostFacts, need: Need) -> Iterator[Line]:
    if facts.gpu_fault:
        yield _line("driver-answers", Verdict.UNFIT, facts.gpu_fault)
    if not facts.gpus:
        if not facts.gpu_fault:
            asked = facts.gpus is not None
            yield _line("gpu", Verdict.UNFIT if need.cuda and asked else Verdict.UNSEEN,
                        f"nvidia-smi {'shows no GPU' if asked else 'did not answer'}")
        return
    names = ", ".join(f"{gpu.name} ({gpu.capability or 'compute capability not given'})"
                      for gpu in facts.gpus)
    yield _line("gpu", _when(all(gpu.capability != GB10 for gpu in facts.gpus)), names)
    driver = facts.gpus[0].driver
    branch = driver.partition(".")[0]
    yield _line("driver", _when(not branch.isdecimal() or int(branch) < DRIVER), driver)
    yield from _driver_cuda(facts, need)
    yield from _clocks(facts)


def _driver_cuda(facts: HostFacts, need: Need) -> Iterator[Line]:
    if need.cuda and facts.driver_cuda:
        older = _version(facts.driver_cuda) < _version(need.cuda)
        yield _line("cuda", _when(older), f"driver {facts.driver_cuda}, image {need.cuda}")
    elif need.cuda:
        yield _line("cuda", Verdict.UNSEEN, "nvidia-smi names no CUDA version")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _clocks(facts: HostFacts) -> Iterator[Line]:
    for gpu in facts.gpus or ():
        if gpu.clock is None or gpu.utilization is None:
            yield _line("clocks", Verdict.UNSEEN, "the driver gives no clock")
            continue
        seen = f"{gpu.clock:.0f} MHz at {gpu.utilization:.0f} % load"
        if gpu.utilization < BUSY_PERCENT:
            yield Line(check="clocks", verdict=Verdict.UNSEEN,
                       seen=f"{seen}: only a busy GPU shows whether it is stuck")
        else:
            yield _line("clocks", _when(gpu.clock < LOW_CLOCK_MHZ), seen)
        reasons = [flag.name or "" for flag in Slowdown if gpu.slowdown & flag]
        yield _line("slowdown", _when(bool(reasons), Verdict.WARNING),
                    ", ".join(reasons).lower().replace("_", " ") or "none")


def _docker(facts: HostFacts, _: Need) -> Iterator[Line]:
    docker = facts.docker
    if docker is None:
        yield _line("docker", Verdict.UNFIT, "docker info did not answer")
        return
    if docker.error:
        forbidden = "permission denied" in docker.error.lower()
        yield _line("docker-group" if forbidden else "docker", Verdict.UNFIT, docker.error)
        return
    yield _line("docker", Verdict.OK, docker.version)
    yield _line("docker-snap", _when(docker.snap), docker.data_root)
    if facts.gpus:
        has = "nvidia" in docker.runtimes or bool(docker.cdi_folders and facts.cdi)
        seen = f"runtimes: {', '.join(docker.runtimes)}; CDI: {', '.join(facts.cdi) or 'none'}"
        yield _line("gpu-in-containers", _when(not has), seen)


def _memory(facts: HostFacts, need: Need) -> Iterator[Line]:
    total, available = facts.memory.get("MemTotal"), facts.memory.get("MemAvailable")
    if not total or available is None:
        yield _line("memory", Verdict.UNSEEN, "/proc/meminfo cannot be read")
        return
    wanted = int(total * need.memory_share)
    seen = f"{console.size(available)} available of {console.size(total)}"
    asked = f", {need.name} takes {console.size(wanted)}" if wanted else ""
    narrow = _when(bool(wanted) and available - START_BYTES < wanted, Verdict.WARNING)
    yield _line("memory", Verdict.UNFIT if available < wanted else narrow, seen + asked)
    yield from _cuda_memory(facts, need)
    yield from _page_cache(facts, total)
    yield from _held(facts, total)
    yield _line("swap", _when(facts.swap > 0, Verdict.WARNING),
                f"{console.size(facts.swap)} on" if facts.swap else "off")
    if facts.gpus:
        yield _line("earlyoom", _when(not facts.earlyoom, Verdict.WARNING),
                    "running" if facts.earlyoom else "not running")


def _cuda_memory(facts: HostFacts, need: Need) -> Iterator[Line]:
    """Look at what CUDA itself says it can get."""
    if not facts.gpus:
        return
    if facts.cuda_memory is None:
        yield _line("cuda-memory", Verdict.UNSEEN, "CUDA does not say what it can get")
        return
    free, total = facts.cuda_memory.free, facts.cuda_memory.total
    wanted = int(total * need.memory_share)
    asked = f", {need.name} asks for {console.size(wanted)}" if wanted else ""
    yield _line("cuda-memory", _when(free < wanted, Verdict.WARNING),
                f"CUDA says {console.size(free)} free of {console.size(total)}{asked}")


def _page_cache(facts: HostFacts, total: int) -> Iterator[Line]:
    """Look at the cache: of unified memory, CUDA's own figure of what is free is MemFree."""
    cached = facts.memory.get("Cached", 0) + facts.memory.get("Buffers", 0)
    unified = any(gpu.capability == GB10 for gpu in facts.gpus or ())
    seen, free = console.size(cached), facts.memory.get("MemFree")
    if unified and free is not None:
        seen += f"; CUDA's own figure of free memory is {console.size(free)}"
    yield _line("page-cache", _when(unified and cached > CACHE_SHARE * total, Verdict.WARNING),
                seen)


def _held(facts: HostFacts, total: int) -> Iterator[Line]:
    """Look at who holds GPU memory, and at memory that nobody admits to holding."""
    if facts.processes is None:
        yield _line("gpu-holders", Verdict.UNSEEN, "nvidia-smi lists no processes")
        return
    holders = [_holder(process) for process in facts.processes]
    names = [*holders, *(["ollama (running)"] if facts.ollama and not holders else [])]
    yield _line("gpu-holders", _when(bool(names), Verdict.WARNING), ", ".join(names) or "nobody")
    known = sum(facts.memory.get(key, 0) for key in (
        "MemFree", "Buffers", "Cached", "AnonPages", "Slab", "KernelStack", "PageTables"))
    missing = total - known - sum(process.memory or 0 for process in facts.processes)
    if "AnonPages" in facts.memory and facts.gpus:
        yield _line("held-memory", _when(missing > HELD_SHARE * total, Verdict.WARNING),
                    f"{console.size(max(0, missing))} that no process explains")


def _holder(process: GpuProcess) -> str:
    size = "size not given" if process.memory is None else console.size(process.memory)
    inside = f" in container {process.container}" if process.container else ""
    return f"{Path(process.name).name}{inside} ({size})"


def _desk(facts: HostFacts, _: Need) -> Iterator[Line]:
    if facts.gpus:
        yield _line("desktop", _when(facts.desktop, Verdict.WARNING),
                    "running" if facts.desktop else "not running")
    yield _line("port", _when(facts.port_taken),
                f"{PORT} is taken" if facts.port_taken else f"{PORT} is free")


def _folders(facts: HostFacts, need: Need) -> Iterator[Line]:
    for folder in facts.folders:
        yield _folder(folder)
    usable = [folder.free for folder in facts.folders if not folder.problem]
    if usable:
        free = min(usable)
        wanted = need.image + need.model
        seen = f"{console.size(free)} free"
        if need.build:
            yield _line("disk", _when(free < need.build, Verdict.WARNING),
                        f"{seen}, a build of {need.cell} takes {console.size(need.build)}")
            return
        asked = f", image and model take {console.size(wanted)}" if wanted else ""
        yield _line("disk", _when(free < wanted), seen + asked)


def _folder(folder: Folder) -> Line:
    if folder.problem:
        return _line("folder-unusable", Verdict.UNFIT, f"{folder.path}: {folder.problem}")
    problem = ""
    if not folder.writable:
        problem = f"belongs to {folder.owner} and is not writable"
    elif folder.foreign:
        problem = f"holds files of another user: {', '.join(folder.foreign)}"
    return _line("folder", _when(bool(problem)), f"{folder.path} {problem or 'is writable'}",
                 path=shlex.quote(folder.path))


def _two_sparks(facts: HostFacts, _: Need) -> Iterator[Line]:
    """Judge RDMA only where an adapter has a link: one Spark alone needs none."""
    active = [adapter for adapter in facts.adapters or () if adapter.state == "Active"]
    if not active:
        return
    seen = ", ".join(f"{adapter.name} {adapter.rate} Gb/s" for adapter in active)
    yield _line("rdma", _when(len(active) % 2 == 1, Verdict.WARNING), seen)
    yield _line("memlock", _when(0 <= facts.memlock < GB, Verdict.WARNING),
                "unlimited" if facts.memlock < 0 else console.size(facts.memlock))
    yield _line("rdma-devices", _when(not facts.rdma_devices, Verdict.WARNING),
                "/dev/infiniband" if facts.rdma_devices else "no device that this user may open")
    yield from _links(facts)


def _links(facts: HostFacts) -> Iterator[Line]:
    """Judge the links of RDMA adapters: an address to be found at, and one index for it."""
    up = [link for link in facts.links if link.up]
    if not up:
        yield _line("rdma-address", Verdict.UNSEEN, "ibdev2netdev lists no link")
        return
    named = [f"{link.adapter} is {link.device} ({', '.join(found) if found else 'no address'})"
             for link in up for found in (facts.addresses.get(link.device, ()),)]
    nowhere = not any(facts.addresses.get(link.device) for link in up)
    yield _line("rdma-address", _when(nowhere, Verdict.WARNING), "; ".join(named))
    adapters = {link.adapter for link in up if facts.addresses.get(link.device)}
    indices = {gid.adapter: gid.index for gid in facts.gids
               if gid.adapter in adapters and gid.kind == ROCE and gid.ipv4}
    if adapters:
        seen = ", ".join(f"{name} index {indices[name]}" if name in indices else f"{name} none"
                         for name in sorted(adapters))
        differ = len(set(indices.values())) > 1 or bool(adapters - set(indices))
        yield _line("rdma-gid", _when(differ, Verdict.WARNING), seen)


CHECKS: tuple[Callable[[HostFacts, Need], Iterator[Line]], ...] = (
    _machine, _gpu, _docker, _memory, _desk, _folders, _two_sparks)
