"""A workspace with one locked cell whose vLLM comes from a repository that a stand-in serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hosting_server import HostingServer, serve_hosting

from builder.matrix.cells import Cell
from builder.workspace import Workspace, open_workspace
from tests.integration.test_build import make_workspace

FIRST = 'WORD = "from the wheel 1.0"\n'
FIXED = 'WORD = "fixed"\n'


@dataclass
class Patched:
    """The matrix file, the cache, and the service that has pull request 7: a fix of one line."""

    matrix: Path
    hosting: HostingServer

    @property
    def workspace(self) -> Workspace:
        """Return the workspace as the files are now."""
        return open_workspace(self.matrix)

    @property
    def cell(self) -> Cell:
        """Return its only cell."""
        return self.workspace.cells[0]

    def declare(self, name: str = "fix", **values: Any) -> None:
        """Add a patch to the matrix: pull request 7 unless the values say otherwise."""
        if not {"pull", "commit", "compare", "file"} & values.keys():
            values["pull"] = 7
        if "file" not in values:
            values.setdefault("repository", "owner/name")
        values.setdefault("reason", "a test")
        lines = [f"\n[patches.{name}]", *(f"{key} = {_toml(value)}"
                                          for key, value in values.items())]
        with self.matrix.open("a") as file:
            file.write("\n".join(lines) + "\n")

    def forget(self) -> None:
        """Take every declared patch out of the matrix again."""
        self.matrix.write_text(self.matrix.read_text().partition("\n[patches.")[0])


@contextmanager
def patched_cell(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patched]:
    """Make the workspace and its repository in ``folder``."""
    workspace = make_workspace(folder / "work", weights=b"x")
    with serve_hosting(folder / "repository") as hosting:
        hosting.commit({"vllm/__init__.py": FIRST, "csrc/a.cu": "a\n"}, "start")
        hosting.commit({"vllm/__init__.py": FIXED}, on="fix")
        hosting.open_pull(7, "fix", "Fix the word")
        monkeypatch.setenv("SPARKYARD_CACHE", str(workspace.cache))
        monkeypatch.setenv("GITHUB_API_URL", hosting.url)
        monkeypatch.setenv("SPARKYARD_REGISTRY", "127.0.0.1:9/none")
        for name in ("GITHUB_TOKEN", "GH_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        yield Patched(workspace.root / "matrix.toml", hosting)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value) if isinstance(value, int) else '"' + str(value) + '"'
