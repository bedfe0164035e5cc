"""A tool from its lock: once, whole, and never other bytes. A wheel made here is its index."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from builder.errors import NetworkError
from builder.fetch import tool as fetch_tool
from builder.fetch.tool import tool_python
from builder.indexes.settings import Sources
from builder.process import run

NAME = "tool-1.0-py3-none-any.whl"


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the lock of one wheel, which lies in the only place that is asked."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    info = "tool-1.0.dist-info"
    with zipfile.ZipFile(wheels / NAME, "w") as wheel:
        wheel.writestr("tool.py", "print('it runs')\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n"
                                        "Root-Is-Purelib: true\n")
        wheel.writestr(f"{info}/RECORD", "")
    sha256 = hashlib.sha256((wheels / NAME).read_bytes()).hexdigest()
    file = tmp_path / "tool.txt"
    file.write_text(f"tool==1.0 \\\n    --hash=sha256:{sha256}\n")
    page = tmp_path / "simple" / "tool" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{(wheels / NAME).as_uri()}">{NAME}</a>')
    monkeypatch.setattr(fetch_tool, "user_sources",
                        lambda: Sources((tmp_path / "simple").as_uri()))
    return file


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return tmp_path / "cache"


def test_it_is_installed_once_and_runs(lock: Path, cache: Path,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    python = tool_python(lock, cache)
    assert run([python, "-m", "tool"]).stdout == "it runs\n"
    assert list((cache / "tmp").iterdir()) == []
    monkeypatch.setattr(fetch_tool, "_install", None)
    assert tool_python(lock, cache) == python


def test_another_lock_is_another_environment(lock: Path, cache: Path) -> None:
    first = tool_python(lock, cache)
    lock.write_text("# newer\n" + lock.read_text())
    assert tool_python(lock, cache) != first


def test_other_bytes_are_refused_and_leave_nothing(lock: Path, cache: Path) -> None:
    lock.write_text(lock.read_text()[:-5] + "0000\n")
    with pytest.raises(NetworkError, match="tool could not be installed"):
        tool_python(lock, cache)
    assert not (cache / "tools").exists()
    assert list((cache / "tmp").iterdir()) == []
