"""A docker program for faults that no real engine can be made to produce."""

from __future__ import annotations

import sys
from pathlib import Path


def fake_docker(folder: Path, body: str) -> Path:
    """Write a program called docker; ``body`` is Python, ``words`` its arguments."""
    path = folder / "docker"
    path.write_text(f"#!{sys.executable}\nimport sys, time\nwords = sys.argv[1:]\n{body}\n")
    path.chmod(0o755)
    return path
