"""The launcher: time and memory of a compile, and its status as it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from builder.compile.inside.measure import main


def test_a_compile_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_MEASURES", str(tmp_path))
    program = "x = bytearray(64 << 20); x[::4096] = b'1' * len(x[::4096])"
    assert main([sys.executable, "-c", program, "-o", "a.o"]) == 0
    note = json.loads(next(tmp_path.iterdir()).read_text())
    assert note["object"] == "a.o"
    assert note["peak_memory"] > 64 << 20
    assert note["seconds"] >= 0


@pytest.mark.parametrize(("program", "status"), [
    ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_the_status_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str,
                                 status: int) -> None:
    monkeypatch.setenv("SPARKYARD_MEASURES", str(tmp_path))
    assert main([sys.executable, "-c", program]) == status
