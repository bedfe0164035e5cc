"""One wheel into two tars: its files with bytecode, and its metadata."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from bytecode_here import compiler_here
from hand_made_wheels import make_wheel

from builder.errors import UsageError
from builder.layers.wheel_contents import Layout
from builder.layers.wheel_layer import PackedWheel, cached_path, pack_wheel
from builder.tarball import read_files

PYTHON = platform.python_version()
LAYOUT = Layout(PYTHON)


def pack(folder: Path, files: dict[str, bytes]) -> PackedWheel:
    work = folder / "work"
    work.mkdir()
    with compiler_here(PYTHON, sys.executable) as compiler:
        return pack_wheel(make_wheel(folder, "demo", files), LAYOUT, compiler, work,
                          lambda _count: None)


def test_files_and_metadata_are_apart(tmp_path: Path) -> None:
    packed = pack(tmp_path, {"demo/a.py": b"x = 1\n", "demo/data.bin": b"\0"})
    files = {file.path for file in read_files(packed.files.path)}
    metadata = {file.path for file in read_files(packed.metadata.path)}
    assert files == {f"{LAYOUT.site}/demo/a.py", f"{LAYOUT.site}/demo/data.bin",
                     cached_path(f"{LAYOUT.site}/demo/a.py", LAYOUT)}
    assert {path.rpartition("/")[2] for path in metadata} == {
        "METADATA", "WHEEL", "INSTALLER", "RECORD"}


def test_only_library_modules_are_compiled(tmp_path: Path) -> None:
    packed = pack(tmp_path, {"demo-1.0.data/data/share/x.py": b"1\n", "bad.py": b"print 1\n"})
    assert not any(file.path.endswith(".pyc") for file in read_files(packed.files.path))


def test_bytecode_lies_where_python_looks_for_it() -> None:
    tag = f"cpython-{LAYOUT.minor.replace('.', '')}"
    assert cached_path("a/b.py", LAYOUT) == f"a/__pycache__/b.{tag}.pyc"


def test_a_member_as_file_and_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the wheel demo.* cannot be installed") as caught:
        pack(tmp_path, {"demo": b"1", "demo/a.txt": b"2"})
    assert "a file and the folder" in caught.value.what
