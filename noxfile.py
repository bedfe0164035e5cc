"""The front door: one line each into ``builder/``; the sessions come from the matrix.

Sessions that only call the tool reuse their environment; ``nox -l`` works with a broken matrix.
"""

from __future__ import annotations

import re
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "tests"]

ROOT = Path(__file__).parent


def image_names() -> list[str]:
    """Return the matrix's image names, read by pattern so that a broken matrix still lists."""
    try:
        text = (ROOT / "matrix.toml").read_text(encoding="utf-8")
    except OSError:
        return []
    return re.findall(r'^\[images\."?([A-Za-z0-9.-]+?)"?\]\s*$', text, flags=re.MULTILINE)


def sparkyard(session: nox.Session, *arguments: str) -> None:
    """Install this checkout (once) and run its command line."""
    session.install("-q", "-e", ".")
    session.run("sparkyard", *arguments)
