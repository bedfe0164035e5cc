"""Small wheels, made by hand, for tests of what happens to them."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    """Write a wheel of version 1.0 by hand, with a true RECORD."""
    info = f"{name}-1.0.dist-info"
    files = {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
             .encode(), f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                                         b"Tag: py3-none-any\n"}
    rows = [f"{path},sha256={record_hash(data)},{len(data)}\n" for path, data in files.items()]
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in files.items():
            archive.writestr(zipfile.ZipInfo(member), data)
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "".join(rows) + f"{info}/RECORD,,\n")
    return path


def record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
