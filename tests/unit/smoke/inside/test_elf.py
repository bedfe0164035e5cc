"""The ELF reader inside images: what a file expects others to define, and nothing of others."""

from __future__ import annotations

import _ctypes
import subprocess
from pathlib import Path

from elf import undefined_symbols


def test_undefined_symbols_are_what_the_compiler_left_open(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("int cuInit(int); int mine(void) { return cuInit(0); }")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "a.so", source], check=True)
    names = set(undefined_symbols(tmp_path / "a.so"))
    assert "cuInit" in names
    assert "mine" not in names


def test_a_real_extension_expects_python() -> None:
    names = set(undefined_symbols(Path(_ctypes.__file__)))
    assert {"PyErr_SetString", "PyModule_AddType"} & names


def test_other_files_have_none(tmp_path: Path) -> None:
    for data in (b"", b"text", b"\x7fELF\x02\x01" + b"\xff" * 100):
        (tmp_path / "x").write_bytes(data)
        assert list(undefined_symbols(tmp_path / "x")) == []
