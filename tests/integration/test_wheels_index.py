"""Compiled wheels from a published index: unmodified pip and uv, hashes required."""

from __future__ import annotations

import functools
import http.server
import shutil
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from uv import find_uv_bin

from builder.cli import run as sparkyard
from builder.commands.wheels_build import build_cells
from builder.locking.lock import LockedWheel, load_for
from builder.process import Result, run
from builder.workspace import Workspace
from tests.unit.compiled_cells import compiled_workspace
from tests.unit.compiled_extension import Gcc

PIP = (sys.executable, "-m", "pip", "install", "--isolated", "--no-cache-dir",
       "--disable-pip-version-check", "--no-deps", "--require-hashes")
UV = (find_uv_bin(), "pip", "install", "--no-config", "--no-cache", "--no-deps", "--require-hashes",
      "--python", sys.executable)
SHOW = "import spam._answer, spam._other; print(spam._answer.value(), spam._other.value())"


class Index:
    """An index in a folder, its address, and the one wheel that it offers."""

    def __init__(self, folder: Path, url: str, wheel: LockedWheel) -> None:
        self.folder, self.url, self.wheel = folder, url, wheel

    def install(self, tool: tuple[str, ...], folder: Path) -> Result:
        wanted = folder / "requirements.txt"
        wanted.write_text(f"spam=={self.wheel.version} --hash=sha256:{self.wheel.sha256}\n")
        return run([*tool, "--target", folder / "site", "--index-url", f"{self.url}/simple/",
                    "-r", wanted], check=False, timeout=120)


def compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Workspace, LockedWheel]:
    workspace = compiled_workspace(folder, monkeypatch)
    build_cells(workspace, workspace.cells, Gcc())
    wheel = load_for(workspace.cells[0], workspace.locks).wheel("spam")
    assert wheel
    return workspace, wheel


class Quiet(http.server.SimpleHTTPRequestHandler):
    """The static server of Python itself, without its log."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    workspace, wheel = compiled(tmp_path, monkeypatch)
    folder = tmp_path / "index"
    assert sparkyard(["--matrix", str(workspace.root / "matrix.toml"), "wheels", "index",
                      "--output", str(folder)]) == 0
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield Index(folder, f"http://127.0.0.1:{server.server_port}", wheel)
        server.shutdown()


@pytest.mark.parametrize("tool", [PIP, UV], ids=["pip", "uv"])
def test_an_installer_takes_the_compiled_wheel_and_refuses_another(
        tool: tuple[str, ...], index: Index, tmp_path: Path) -> None:
    done = index.install(tool, tmp_path)
    assert done.returncode == 0, done.stderr
    said = run([sys.executable, "-c", SHOW], env={"PYTHONPATH": str(tmp_path / "site")})
    assert said.stdout.split() == ["42", "7"]
    shutil.rmtree(tmp_path / "site")
    with zipfile.ZipFile(index.folder / "files" / index.wheel.file, "a") as archive:
        archive.writestr("spam/more.py", "whole, and not what is listed")
    done = index.install(tool, tmp_path)
    assert done.returncode != 0
    assert "hash" in (done.stdout + done.stderr).lower()
    assert not (tmp_path / "site" / "spam").exists()
