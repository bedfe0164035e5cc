"""Wheels and diffs for the tests of patches."""

from __future__ import annotations

import base64
import difflib
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from builder.locking.lock import LockedWheel


def make_wheel(folder: Path, files: Mapping[str, bytes], name: str = "vllm",
               version: str = "1.0") -> Path:
    """Write a wheel by hand, with a true RECORD."""
    info = f"{name}-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: in the text\n"
    members = {**files, f"{info}/METADATA": about.encode(),
               f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    rows = [f"{path},{digest(data)},{len(data)}\n" for path, data in members.items()]
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(zipfile.ZipInfo(member), data, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "".join(rows) + f"{info}/RECORD,,\n")
    return path


def digest(data: bytes) -> str:
    """Return a hash as RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def locked(path: Path) -> LockedWheel:
    """Return the lock's line on a wheel file."""
    name, version = path.name.split("-")[:2]
    return LockedWheel(name=name, version=version, file=path.name, index="default",
                       sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
                       size=path.stat().st_size)


def diff(path: str, before: str | None, after: str | None) -> bytes:
    """Return a git diff of one file; None where there is no file."""
    head = f"diff --git a/{path} b/{path}\n"
    head += "new file mode 100644\n" if before is None else ""
    head += "deleted file mode 100644\n" if after is None else ""
    lines = difflib.unified_diff((before or "").splitlines(keepends=True),
                                 (after or "").splitlines(keepends=True),
                                 "/dev/null" if before is None else f"a/{path}",
                                 "/dev/null" if after is None else f"b/{path}")
    return (head + "".join(lines)).encode()


def encrypted(path: Path) -> Path:
    """Say of every member that it is encrypted."""
    data = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + flags] |= 1
            at = data.find(mark, at + 4)
    path.write_bytes(data)
    return path


def torn(path: Path) -> Path:
    """Damage the compressed bytes of the first member."""
    data = bytearray(path.read_bytes())
    begin = 30 + int.from_bytes(data[26:28], "little") + int.from_bytes(data[28:30], "little")
    data[begin:begin + 9] = b"\xff" * 9
    path.write_bytes(data)
    return path
