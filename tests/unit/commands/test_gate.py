"""What ``sparkyard gate`` refuses before it judges or fetches anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from elf_files import make_wheel

from builder import cli


@pytest.mark.parametrize("words", [
    ["--image", ""], ["--explain", ""], ["--explain", "no-such-code"],
    ["cpu", "--image", "x"], ["--sarif", "FOLDER", "cpu"], ["--sarif", "/dev/null/x.sarif", "cpu"],
    ["--wheels", "FOLDER/none.whl"], ["--wheels", "FOLDER"], ["--image", "a b"],
    ["--image", "team/VLLM"], ["cpu", "--base", "a@b"], ["cpu", "--base", ""]])
def test_nonsense_is_refused_at_once(words: list[str], tmp_path: Path,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(["gate", *(word.replace("FOLDER", str(tmp_path)) for word in words)])
    assert code == 2
    assert "next:" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_sarif_file_is_made(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    wheel = make_wheel(tmp_path, {"thing.py": b""})
    file = tmp_path / "results" / "cells" / "x.sarif"
    assert cli.run(["gate", "--wheels", str(wheel), "--sarif", str(file)]) == 0
    assert '"base-unknown"' in file.read_text()


def test_a_number_is_explained_by_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["gate", "--explain", "f9"]) == 0
    assert capsys.readouterr().out.startswith("arch-exact-only (F9): ")
