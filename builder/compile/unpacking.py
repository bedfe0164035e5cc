"""Which file of a locked wheel goes where in the toolchain's image.

NVIDIA's wheels for the machine that compiles hold the programs, those for the machine that is
compiled for the headers and libraries; together they are one CUDA toolkit, as NVIDIA's own
cross toolkit lays it out. Libraries that only a running program needs stay out.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from builder.errors import UsageError
from builder.files import ZIP_FAULTS
from builder.tarball import CHUNK_BYTES, Chunks, Entry, File, Link

CUDA = "opt/cuda"
TARGET = f"{CUDA}/targets/sbsa-linux"
TOOLS = "opt/tools"
TORCH = "opt/torch"
HEADERS = "opt/headers"  # of other packages that are compiled against
_NVIDIA = re.compile(r"nvidia/cu\d+/(.*)")
_SONAME = re.compile(r"(lib/(lib[A-Za-z0-9_]+)\.so)\.[\d.]+$")
# The linker is asked for these by name; the other libraries have hundreds of megabytes.
LINKED = ("lib/libcudart*", "lib/libcudadevrt.a", "lib/libnvrtc.so.*", "lib/libcurand.so.*")
TOOL_HEADERS = ("include/fatbinary_section.h", "include/crt/*", "include/nvvm*")
TORCH_PARTS = ("torch/include/*", "torch/share/cmake/*", "torch/lib/*.so*", "torch/version.py",
               "torch/utils/cpp_extension.py")


@dataclass(frozen=True)
class Piece:
    """One locked wheel on its way into the image: its file, and what it is for."""

    path: Path
    role: str  # tool, target, torch


@contextmanager
def opened(piece: Piece) -> Iterator[list[Entry]]:
    """Give the files of a wheel that the toolchain takes, to be read inside the block.

    Raises UsageError for a wheel that is damaged, here or while a file is read; what fails in the
    block for another reason is not the wheel's.
    """
    with ExitStack() as stack:
        with _whole(piece.path):
            archive = stack.enter_context(zipfile.ZipFile(piece.path))
            found = list(_entries(archive, piece))
        yield found


@contextmanager
def _whole(wheel: Path) -> Iterator[None]:
    """Name the wheel where reading it in the block fails."""
    try:
        yield
    except (OSError, *ZIP_FAULTS) as error:
        raise UsageError(f"{wheel.name} is not a wheel that can be read: {error}",
                         where=str(wheel), next_step="remove it, and run the same command "
                         "again") from error


def _entries(archive: zipfile.ZipFile, piece: Piece) -> Iterator[Entry]:
    for info in archive.infolist():
        place = "" if info.is_dir() else placed(info.filename, piece.role)
        if place:
            yield File(place, info.file_size, _reader(archive, info.filename, piece.path),
                       _is_program(place))
            link = _SONAME.search(place)
            if link and piece.role == "target":
                yield Link(place[:link.start()] + link[1], place.rpartition("/")[2])


def placed(name: str, role: str) -> str:
    """Return where a member goes, empty where it is left out."""
    if role == "torch":
        taken = any(fnmatchcase(name, pattern) for pattern in TORCH_PARTS)
        return f"{TORCH}/{name}" if taken else ""
    inner = _NVIDIA.fullmatch(name)
    if inner is None and role == "target":
        return f"{HEADERS}/{name}" if "/include/" in name else ""
    if inner is None:
        return _tool(name) if role == "tool" else ""
    if role == "target":
        wanted = inner[1].startswith("include/") or any(fnmatchcase(inner[1], pattern)
                                                        for pattern in LINKED)
        return f"{TARGET}/{inner[1]}" if wanted else ""
    if inner[1].startswith("include/"):
        wanted = any(fnmatchcase(inner[1], pattern) for pattern in TOOL_HEADERS)
        return f"{TARGET}/{inner[1]}" if wanted else ""
    return f"{CUDA}/{inner[1]}" if inner[1].startswith(("bin/", "nvvm/", "lib/")) else ""


def _tool(name: str) -> str:
    """Place a program that is no part of CUDA: cmake, ninja, and modules of Python."""
    if ".dist-info/" in name:
        return ""
    if name.startswith("cmake/data/"):
        return f"{TOOLS}/cmake/{name.removeprefix('cmake/data/')}"
    if "/scripts/" in name and ".data/" in name:
        return f"{TOOLS}/bin/{name.rpartition('/')[2]}"
    return f"{TOOLS}/python/{name}"


def _is_program(place: str) -> bool:
    return "/bin/" in place or place.startswith(f"{CUDA}/nvvm/bin")


def _reader(archive: zipfile.ZipFile, name: str, wheel: Path) -> Chunks:
    def read() -> Iterator[bytes]:
        with _whole(wheel), archive.open(name) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk
    return read
