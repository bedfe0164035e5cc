"""The command ``gate``: what it refuses before it starts, and what its last line says."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from elf_files import elf_file, make_wheel

from builder import cli
from builder import labels as label
from builder.commands import gate
from builder.errors import LockError
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("words", [
    ["--image", ""], ["--explain", ""], ["--explain", "no-such-code"],
    ["cpu", "--image", "x"], ["--sarif", "FOLDER", "cpu"], ["--sarif", "/dev/null/x.sarif", "cpu"],
    ["--wheels", "FOLDER/none.whl"], ["--wheels", "FOLDER"], ["--image", "a b"],
    ["--image", "team/VLLM"], ["cpu", "--base", "a@b"], ["cpu", "--base", ""],
    ["--image", "x", "--base", "y"]])
def test_nonsense_is_refused_at_once(words: list[str], tmp_path: Path,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(["gate", *(word.replace("FOLDER", str(tmp_path)) for word in words)])
    assert code == 2
    assert "next:" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_findings_are_written_as_sarif_and_no_wheel_is_overwritten(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    wheel = make_wheel(tmp_path, {"thing.py": b""})
    before = wheel.read_bytes()
    file = tmp_path / "x.sarif"
    assert cli.run(["gate", "--wheels", str(wheel), "--sarif", str(file)]) == 0
    assert '"base-unknown"' in file.read_text()
    assert cli.run(["gate", "--wheels", str(wheel), "--sarif", str(wheel)]) == 2
    assert wheel.read_bytes() == before
    assert cli.run(["gate", "--wheels", str(wheel), "--sarif",
                    str(tmp_path / "no" / "x.sarif")]) == 2
    assert not (tmp_path / "no").exists()
    (tmp_path / "cache" / "keys").mkdir(parents=True, exist_ok=True)
    assert cli.run(["gate", "--wheels", str(wheel), "--sarif",
                    str(tmp_path / "cache" / "keys" / "x.json")]) == 2


def test_a_pipe_as_a_wheel_does_not_hang(tmp_path: Path, capsys: pytest.CaptureFixture[str]
                                         ) -> None:
    pipe = tmp_path / "torch-2.11.0-py3-none-any.whl"
    os.mkfifo(pipe)
    assert cli.run(["gate", "--wheels", str(pipe)]) == 2
    assert "pipe, device or socket" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "codes"), [
    ("f9", ["arch-exact-only (F9): "]),
    ("F5", ["undefined-symbol (F4, F5): ", "missing-library (F5, F6): "])])
def test_a_number_is_explained_by_its_codes(
        number: str, codes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["gate", "--explain", number]) == 0
    out = capsys.readouterr().out
    assert all(code in out for code in codes)


GETTER = "_ZN2at4cuda24getCurrentCUDABlasHandleEv"


@pytest.mark.parametrize(("defined", "code", "verdict"), [
    ([GETTER], 0, "PASSED"), (["_ZN2at5otherEv"], 1, "FAILED")])
def test_without_a_base_symbols_of_a_given_torch_are_judged(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        defined: list[str], code: int, verdict: str) -> None:
    """VLLM beside a torch that lacks one of torch's own symbols: an error, with or without base."""
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    torch = make_wheel(tmp_path, {
        "torch/_C.abi3.so": elf_file(needed=["libtorch.so"], rpath="$ORIGIN/lib"),
        "torch/lib/libtorch.so": elf_file(soname="libtorch.so", defined=defined)}, name="torch")
    vllm = make_wheel(tmp_path, {"vllm/_C.abi3.so": elf_file(
        needed=["libtorch.so", "libnuma.so.1"], undefined=[GETTER, "printf"])}, name="vllm",
        requires=("torch", "numpy", "pillow", "regex"))
    assert cli.run(["gate", "--wheels", str(vllm), str(torch)]) == code
    *rows, last = capsys.readouterr().out.splitlines()
    assert ("at::cuda::getCurrentCUDABlasHandle()" in "".join(rows)) is (code == 1)
    assert last.startswith(f"{verdict}: gate 2 wheels: 2 wheels, ")
    assert last.endswith("; not judged: system libraries and the toolchain (no base), what 3 "
                         "absent wheels may bring")


def test_an_image_of_ours_with_a_stale_lock_is_refused_before_it_is_read(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cell = open_workspace(ROOT / "matrix.toml").cells[0]
    image = SimpleNamespace(labels={label.CELL: cell.id})

    def stale(*_: object) -> None:
        raise LockError("the matrix entry has changed since this lock was made")

    def read(*_: object) -> None:
        raise AssertionError("the image was read, which takes minutes")

    monkeypatch.setattr(gate.Engine, "connect", staticmethod(lambda: None))
    monkeypatch.setattr(gate, "at_hand", lambda *_: image)
    monkeypatch.setattr(gate, "load_for", stale)
    monkeypatch.setattr(gate, "read_file_system", read)
    assert cli.run(["--matrix", str(ROOT / "matrix.toml"), "gate", "--image", "x"]) == 3
    assert "has changed" in capsys.readouterr().err


def test_a_run_without_a_cell_that_can_judge_nothing_is_no_success(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    sarif = tmp_path / "x.sarif"
    assert cli.run(["--matrix", str(ROOT / "matrix.toml"), "gate", "--json",
                    "--sarif", str(sarif)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no cell was judged" in err
    assert "\n  not fetched: tf5, " in err
    assert "\n  not locked: " in err
    assert "next:  name the cells to judge, and their wheels are fetched: `./nox -s gate -- tf5`" \
        in err
    assert not sarif.exists()


def test_a_run_without_a_cell_names_those_that_it_leaves_out(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    """One cell whose wheels are there is judged; of each other cell it says why it is not."""
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(gate, "_obstacle", lambda _, cell: (
        "" if cell.id == "cpu" else "blocked" if cell.id == "tf5" else "not fetched"))
    judged: list[str] = []
    report = SimpleNamespace(errors=(), cell="cpu")
    monkeypatch.setattr(gate, "_gate", lambda w, b, cell, base: judged.append(cell.id) or report)
    monkeypatch.setattr(gate.report_gate, "show", lambda _: None)
    assert cli.run(["--matrix", str(ROOT / "matrix.toml"), "gate"]) == 0
    said = capsys.readouterr().err
    assert judged == ["cpu"]
    assert "judging the 1 of 14 cells whose wheels are fetched; not judged:\n  blocked: tf5\n" \
        in said
    assert "gate -- tf5-cuda" in said
