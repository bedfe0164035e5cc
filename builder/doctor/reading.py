"""What a host says of itself, as raw text: programs that only report, and files under ``/proc``.

Reading is apart from judging, so that the output of any machine can be a test's fixture. Every
program has ``PROGRAM_S`` seconds; all run side by side. One that is missing or fails gives None,
which is not the same as an empty answer.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import resource
import shutil
import stat
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import Field

from builder.errors import SparkyardError
from builder.model import Frozen
from builder.process import run
from builder.text import one_line

PROGRAM_S = 1.5
FAULT_S = 10.0  # a driver that nothing keeps loaded starts for its first question
FAULT_CHARS = 200
FILE_BYTES = 1 << 16

GPU_FIELDS = ("name", "compute_cap", "driver_version", "pstate", "utilization.gpu", "power.draw",
              "clocks.sm", "clocks.max.sm", "clocks_event_reasons.active")
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "gpus": ("nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader,nounits"),
    "gpu_processes": ("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory",
                      "--format=csv,noheader,nounits"),
    "gpu_summary": ("nvidia-smi",),  # this and -q name the driver's CUDA version
    "gpu_details": ("nvidia-smi", "-q"),  # what drivers say that refuse a field of the first
    "cuda_memory": (sys.executable, "-I", str(Path(__file__).with_name("cuda_memory.py"))),
    "docker": ("docker", "info", "--format", "{{json .}}"),
    "containers": ("docker", "ps", "--no-trunc", "--format", "{{.ID}} {{.Names}}"),
    "ibstat": ("ibstat",),
    "ibdev2netdev": ("ibdev2netdev",),
    "addresses": ("ip", "-json", "-4", "address", "show"),
    "earlyoom": ("pgrep", "-x", "earlyoom"),
    "desktop": ("pgrep", "-x", "gnome-shell|Xorg|Xwayland|kwin_wayland"),
    "ollama": ("pgrep", "-x", "ollama"),
}
FILES = {"meminfo": "proc/meminfo", "swaps": "proc/swaps", "tcp": "proc/net/tcp",
         "tcp6": "proc/net/tcp6"}
CDI_FOLDERS = ("etc/cdi", "var/run/cdi")
RDMA = "sys/class/infiniband"
RDMA_DEVICES = "dev/infiniband"
MOST_PROCESSES = 64
MOST_GIDS = 256  # of all adapters; a Spark has some 30


class Folder(Frozen):
    """A folder that containers write into: its owner, whether this user may write, free bytes.

    ``problem`` says why nobody can use it: it is a file, or its file system takes nothing.
    """

    path: str
    exists: bool
    writable: bool
    owner: str
    free: int
    foreign: tuple[str, ...] = ()  # a few entries that belong to another user
    problem: str = ""


class RawHost(Frozen):
    """Everything read, unparsed; None where a program or file is missing or failed."""

    machine: str
    kernel: str
    user: str
    groups: tuple[str, ...]
    texts: dict[str, str | None]
    cdi: tuple[str, ...]
    memlock: int
    folders: tuple[Folder, ...]
    gids: tuple[tuple[str, int, str, str], ...] = ()  # adapter, index, type, address
    rdma_devices: bool = False  # /dev/infiniband has a device that this user may open
    gpu_fault: str = ""  # what nvidia-smi says where it is there and fails
    cgroups: dict[int, str] = Field(default_factory=dict)  # of the processes that hold the GPU


def read_host(folders: tuple[Path, ...], root: Path = Path("/"),
              program: Callable[[tuple[str, ...]], str | None] | None = None) -> RawHost:
    """Read this host; ``root`` and ``program`` stand in for the file system and for programs."""
    ask = program or output_of
    with ThreadPoolExecutor(len(PROGRAMS) + 1) as pool:
        fault = pool.submit(fault_of, ("nvidia-smi", "-L"))
        answers = dict(zip(PROGRAMS, pool.map(ask, PROGRAMS.values()), strict=True))
    texts = {**answers, **{name: text_of(root / path) for name, path in FILES.items()}}
    system = os.uname()
    return RawHost(
        machine=system.machine, kernel=system.release, user=_user(os.geteuid()),
        groups=_groups(), texts=texts, cdi=_cdi(root), memlock=_memlock(),
        folders=tuple(map(look_at_folder, folders)), gids=_gids(root / RDMA),
        rdma_devices=any(os.access(path, os.R_OK | os.W_OK)
                         for path in (root / RDMA_DEVICES).glob("uverbs*")),
        gpu_fault=fault.result(), cgroups=_cgroups(root, answers["gpu_processes"]))


def _cgroups(root: Path, processes: str | None) -> dict[int, str]:
    """Return the control group of each process that holds the GPU; it names a container."""
    pids = [line.partition(",")[0].strip() for line in (processes or "").splitlines()]
    texts = {int(pid): text_of(root / "proc" / pid / "cgroup")
             for pid in pids[:MOST_PROCESSES] if pid.isascii() and pid.isdecimal()}
    return {pid: text for pid, text in texts.items() if text}


def fault_of(command: tuple[str, ...]) -> str:
    """Return what a program that is there says where it fails; empty where it does not."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        result = run(command, check=False, timeout=FAULT_S)
    except SparkyardError:
        return f"{command[0]} does not answer"
    said = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return one_line(said[0] if said else "no word", FAULT_CHARS) if result.returncode else ""


def output_of(command: tuple[str, ...]) -> str | None:
    """Return what a program printed, None where it is missing, fails or takes too long."""
    if shutil.which(command[0]) is None:
        return None
    try:
        result = run(command, check=False, timeout=PROGRAM_S)
    except SparkyardError:
        return None
    return result.stdout if result.returncode == 0 else None


def text_of(path: Path) -> str | None:
    """Return the beginning of a small file, None where it cannot be read."""
    try:
        with path.open("rb") as handle:
            return handle.read(FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def look_at_folder(path: Path) -> Folder:
    """Return who owns a folder, or its nearest parent that is there, and what is free in it.

    Whether it takes files is tried with one that has no name and is gone at once: a file system
    may refuse what its permissions allow, to root before all.
    """
    place, problem = _nearest(path.absolute())
    state, exists = os.statvfs(place), place == path.absolute()
    allowed = os.access(place, os.W_OK | os.X_OK)
    problem = problem or _refusal(place, state, allowed=allowed)
    return Folder(path=str(path), exists=exists, writable=allowed and not problem,
                  owner=_user(place.stat().st_uid), free=state.f_bavail * state.f_frsize,
                  foreign=_foreign(place) if exists else (), problem=problem)


def _nearest(path: Path) -> tuple[Path, str]:
    """Return the folder or its nearest parent, and why nothing can be made below that one."""
    problem = ""
    for place in (path, *path.parents):
        try:
            if stat.S_ISDIR(place.stat().st_mode):
                return place, problem
            problem = f"{place} is no folder"
        except FileNotFoundError:
            problem = f"{place} is a link to nothing" if place.is_symlink() else problem
        except NotADirectoryError:
            continue  # the parent that is a file says so
        except PermissionError:
            continue  # the parent that may not be entered says so
        except OSError as error:
            problem = f"{place}: {error.strerror}"
    return Path("/"), problem


def _refusal(place: Path, state: os.statvfs_result, *, allowed: bool) -> str:
    """Say why the file system takes no file from anybody; empty where permissions decide."""
    if state.f_blocks == 0:
        return "its file system keeps no files"
    if state.f_flag & os.ST_RDONLY:
        return "its file system is read-only"
    try:
        if allowed:
            os.close(os.open(place, os.O_TMPFILE | os.O_WRONLY, 0o600))
    except OSError as error:
        # Not every file system has files without a name: of such a one nothing is known here.
        unknown = error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
        return "" if unknown else error.strerror or "no file can be made there"
    return ""


def _foreign(place: Path) -> tuple[str, ...]:
    """Return a few entries of a folder that belong to another user."""
    try:
        with os.scandir(place) as entries:
            return tuple(sorted(entry.name for entry in entries if entry.stat(
                follow_symlinks=False).st_uid != os.geteuid())[:3])
    except OSError:  # not to be listed, or an entry that vanished
        return ()


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _groups() -> tuple[str, ...]:
    names = []
    for number in os.getgroups():
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            names.append(str(number))
    return tuple(sorted(names))


def _cdi(root: Path) -> tuple[str, ...]:
    files = [path for folder in CDI_FOLDERS for path in sorted((root / folder).glob("*"))]
    return tuple(path.name for path in files if path.suffix in (".yaml", ".json"))


def _gids(folder: Path) -> tuple[tuple[str, int, str, str], ...]:
    """Return the addresses of RDMA adapters: the kernel has them as files, one an index."""
    found = []
    for path in sorted(folder.glob("*/ports/1/gids/*"))[:MOST_GIDS]:
        kind = text_of(path.parents[1] / "gid_attrs" / "types" / path.name)
        gid = text_of(path)
        if kind and gid and path.name.isdecimal():  # a place without address has no type
            found.append((path.parents[3].name, int(path.name), kind.strip(), gid.strip()))
    return tuple(found)


def _memlock() -> int:
    return resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
