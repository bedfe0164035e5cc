"""A wheel's members as an installer would place them under the image's one prefix.

Follows the wheel format (https://packaging.python.org/en/latest/specifications/
binary-distribution-format/) and, where that leaves a choice, pip. Bytes are read only when they
are asked for.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator
from configparser import Error as EntryPointError
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from installer.sources import WheelFile
from installer.utils import SCHEME_NAMES, fix_shebang, parse_entrypoints, parse_metadata_file

from builder.errors import UsageError
from builder.files import ZIP_FAULTS
from builder.tarball import CHUNK_BYTES, Chunks, File, in_memory, why_not

PREFIX = "/opt/sparkyard"
INTERPRETER = f"{PREFIX}/bin/python"
# Our own, so that another version of the installer library does not change a layer.
_SCRIPT = """\
#!{interpreter}
import sys
from {module} import {name}
if __name__ == "__main__":
    sys.exit({attribute}())
"""
_SCRIPT_SIZE_LIMIT = 64 << 20  # a script is rewritten in memory; larger ones are programs


def minor_of(python: str) -> str:
    """Return ``3.11`` of ``3.11.2``."""
    return ".".join(python.split(".")[:2])


@dataclass(frozen=True)
class Layout:
    """Where things lie in the image for one Python (``3.11.2``); paths without leading slash."""

    python: str

    @property
    def minor(self) -> str:
        """Return ``3.11``."""
        return minor_of(self.python)

    @property
    def root(self) -> str:
        """Return the prefix as a tar names it."""
        return PREFIX.lstrip("/")

    @property
    def site(self) -> str:
        """Return the folder site-packages."""
        return f"{self.root}/lib/python{self.minor}/site-packages"

    @property
    def bin(self) -> str:
        """Return the folder of scripts."""
        return f"{self.root}/bin"

    @property
    def reserved(self) -> frozenset[str]:
        """Return the paths of the environment itself, which no wheel may replace."""
        names = ("python", "python3", f"python{self.minor}")
        return frozenset({f"{self.root}/pyvenv.cfg", *(f"{self.bin}/{name}" for name in names)})

    def folder(self, scheme: str, distribution: str) -> str:
        """Return the folder of an installer's scheme: ``purelib``, ``scripts``, ``data``."""
        match scheme:
            case "scripts":
                return self.bin
            case "data":
                return self.root
            case "headers":  # where pip puts them in a virtual environment
                return f"{self.root}/include/site/python{self.minor}/{distribution}"
            case _:
                return self.site


@dataclass(frozen=True)
class Placed:
    """A file of a wheel at its place; ``origin`` is its member, empty for a generated script.

    ``library`` says that it lies in site-packages by its scheme, unchanged, so that modules are
    compiled.
    """

    file: File
    origin: str
    library: bool


@dataclass(frozen=True)
class WheelContents:
    """What a wheel installs: all files but RECORD, and RECORD as the wheel brought it."""

    distribution: str
    dist_info: str
    files: tuple[Placed, ...]
    record: str


@contextmanager
def open_wheel(path: Path, layout: Layout) -> Iterator[WheelContents]:
    """Open a wheel; its files can be read inside the block.

    Raises UsageError naming the wheel and the member for whatever must not enter an image.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            yield _contents(archive, path.name, layout)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError) as error:
        raise refused(path.name, "", f"is not a wheel that can be read: {error}") from error


def refused(wheel: str, member: str, reason: str) -> UsageError:
    """Return the error for a wheel, or one member of it, that must not enter an image."""
    where = f"{wheel}: {member}" if member else wheel
    return UsageError(f"the wheel {wheel} cannot be installed: "
                      + (f"{member!r} {reason}" if member else f"it {reason}"), where=where,
                      next_step="lock another version, or leave it out of the image")


def unpacked_size(path: Path) -> int:
    """Return about how many bytes the wheel's layer will have, from its directory alone.

    A tar adds a header and padding to each file; a compiled module is about as large as its
    source.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(item.file_size * (2 if item.filename.endswith(".py") else 1) + 1024
                       for item in archive.infolist())
    except ZIP_FAULTS as error:
        raise refused(path.name, "", f"is not a zip file: {error}") from error


def _contents(archive: zipfile.ZipFile, wheel: str, layout: Layout) -> WheelContents:
    source, members = WheelFile(archive), list(_members(archive, wheel))
    dist_info = _dist_info(source, wheel)
    scripts = {file.path: Placed(file, "", library=False)
               for file in _entry_points(source, wheel, layout)}
    placed = dict(scripts)
    for item in members:
        if item.filename == f"{dist_info}/RECORD":
            continue
        member = _place(archive, item, source, dist_info, layout)
        if member.file.path in scripts or _is_wrapper(member.file.path, scripts):
            continue  # setuptools' own form of an entry point's script: pip leaves it out too
        if member.file.path in placed:
            raise refused(wheel, item.filename, "and another member have the same place")
        if member.file.path in layout.reserved:
            raise refused(wheel, item.filename, "would replace a part of the environment itself")
        placed[member.file.path] = member
    files = tuple(placed[path] for path in sorted(placed))
    return WheelContents(source.distribution, dist_info, files, source.read_dist_info("RECORD"))


def _dist_info(source: WheelFile, wheel: str) -> str:
    """Return the wheel's ``.dist-info`` folder when what it must hold is in it."""
    names = source.dist_info_filenames
    for needed in ("METADATA", "WHEEL", "RECORD"):
        if needed not in names:
            raise refused(wheel, f"{source.dist_info_dir}/{needed}", "is missing")
    version = parse_metadata_file(source.read_dist_info("WHEEL"))["Wheel-Version"] or ""
    if not version.startswith("1."):
        raise refused(wheel, f"{source.dist_info_dir}/WHEEL", f"has the version {version!r}")
    return source.dist_info_dir


def _members(archive: zipfile.ZipFile, wheel: str) -> Iterator[zipfile.ZipInfo]:
    """Yield the members that are files; refuse what has no business in a wheel.

    Ready-made bytecode is left out, as it is by installers: it would run instead of its source.
    """
    for item in archive.infolist():
        # zipfile cuts names at a NUL and turns backslashes on Windows: judge the name as it came
        name = item.orig_filename.removesuffix("/")
        reason = why_not(name)
        if reason:
            raise refused(wheel, item.orig_filename, reason)
        kind = stat.S_IFMT(item.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise refused(wheel, name, "is a link or a device")
        if item.flag_bits & 0x1:
            raise refused(wheel, name, "is encrypted")
        if not item.is_dir() and "__pycache__" not in name.split("/")[:-1]:
            yield item


def _place(archive: zipfile.ZipFile, item: zipfile.ZipInfo, source: WheelFile, dist_info: str,
           layout: Layout) -> Placed:
    top, _, rest = item.filename.partition("/")
    scheme, inner = "purelib", item.filename
    if rest and top in (source.data_dir, dist_info.removesuffix(".dist-info") + ".data"):
        scheme, _, inner = rest.partition("/")
        if scheme not in SCHEME_NAMES or not inner:
            raise refused(_wheel(archive), item.filename, "is in no known part of .data")
    path = f"{layout.folder(scheme, source.distribution)}/{inner}"
    if scheme == "scripts":
        file = _script(archive, item, path)
    else:
        mode = item.external_attr >> 16
        file = File(path, item.file_size, _reader(archive, item),
                    executable=bool(stat.S_ISREG(mode) and mode & 0o111))
    return Placed(file, item.filename, library=scheme in ("purelib", "platlib"))


def _wheel(archive: zipfile.ZipFile) -> str:
    return Path(archive.filename or "").name


def _reader(archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> Chunks:
    def read() -> Iterator[bytes]:
        with archive.open(item) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk
    return read


def _script(archive: zipfile.ZipFile, item: zipfile.ZipInfo, path: str) -> File:
    """Return a script, executable, with ``#!python`` made the image's interpreter."""
    read = _reader(archive, item)
    with archive.open(item) as stream:
        rewrite = stream.read(8) == b"#!python"
    if not rewrite:
        return File(path, item.file_size, read, executable=True)
    if item.file_size > _SCRIPT_SIZE_LIMIT:
        raise refused(_wheel(archive), item.filename, "is too large for a script")
    with fix_shebang(BytesIO(b"".join(read())), INTERPRETER) as fixed:
        return in_memory(path, fixed.read(), executable=True)


def _entry_points(source: WheelFile, wheel: str, layout: Layout) -> list[File]:
    """Return the scripts of the wheel's ``console_scripts`` and ``gui_scripts``."""
    if "entry_points.txt" not in source.dist_info_filenames:
        return []
    member = f"{source.dist_info_dir}/entry_points.txt"
    scripts = {}
    try:
        for name, module, attribute, _ in parse_entrypoints(
                source.read_dist_info("entry_points.txt")):
            if "/" in name or why_not(name) or f"{layout.bin}/{name}" in layout.reserved:
                raise refused(wheel, member, f"names a script {name!r}")
            text = _SCRIPT.format(interpreter=INTERPRETER, module=module, attribute=attribute,
                                  name=attribute.partition(".")[0])
            scripts[name] = in_memory(f"{layout.bin}/{name}", text.encode(), executable=True)
    except (EntryPointError, AssertionError, UnicodeDecodeError) as error:
        raise refused(wheel, member, f"is damaged: {error}") from error
    return list(scripts.values())


def _is_wrapper(path: str, scripts: dict[str, Placed]) -> bool:
    """Say whether ``path`` is a Windows form of an entry point's script."""
    return any(path.endswith(end) and path.removesuffix(end) in scripts
               for end in ("-script.py", ".exe"))
