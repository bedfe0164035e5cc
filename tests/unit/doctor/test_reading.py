"""Reading asks programs and files, and survives whatever they do."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from builder.doctor import cuda_memory
from builder.doctor.reading import (
    PROGRAMS,
    fault_of,
    look_at_folder,
    output_of,
    read_host,
    text_of,
)


def test_every_program_and_file_is_asked_once(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 1 kB\n")
    (tmp_path / "etc" / "cdi").mkdir(parents=True)
    (tmp_path / "etc" / "cdi" / "nvidia.yaml").touch()
    asked: list[tuple[str, ...]] = []

    def program(command: tuple[str, ...]) -> str | None:
        asked.append(command)
        return None if command[0] == "ibstat" else command[0]

    raw = read_host((tmp_path,), tmp_path, program)
    assert sorted(asked) == sorted(PROGRAMS.values())
    assert raw.texts["docker"] == "docker"
    assert raw.texts["ibstat"] is None
    assert raw.texts["meminfo"] == "MemTotal: 1 kB"
    assert raw.texts["swaps"] is None
    assert raw.cdi == ("nvidia.yaml",)


def test_addresses_of_rdma_adapters_come_from_the_kernels_files(tmp_path: Path) -> None:
    port = tmp_path / "sys/class/infiniband/rocep1s0f1/ports/1"
    for folder in ("gids", "gid_attrs/types"):
        (port / folder).mkdir(parents=True)
    for index, kind in ((3, "RoCE v2\n"), (4, "")):
        (port / "gids" / str(index)).write_text("0000:0000:0000:0000:0000:ffff:c0a8:b10b\n")
        (port / "gid_attrs/types" / str(index)).write_text(kind)
    (tmp_path / "dev/infiniband").mkdir(parents=True)
    (tmp_path / "dev/infiniband/uverbs0").touch()
    raw = read_host((), tmp_path, lambda command: None)
    assert raw.gids == (
        ("rocep1s0f1", 3, "RoCE v2", "0000:0000:0000:0000:0000:ffff:c0a8:b10b"),)
    assert raw.rdma_devices
    assert not read_host((), tmp_path / "elsewhere", lambda command: None).rdma_devices


def test_no_program_that_is_asked_can_change_the_host() -> None:
    allowed = {"nvidia-smi", "docker", "ibstat", "ibdev2netdev", "ip", "pgrep", sys.executable}
    assert {command[0] for command in PROGRAMS.values()} == allowed
    assert [command[1] for command in PROGRAMS.values() if command[0] == "docker"] == ["info", "ps"]
    (ours,) = (command for command in PROGRAMS.values() if command[0] == sys.executable)
    assert ours[1:] == ("-I", cuda_memory.__file__)
    assert PROGRAMS["addresses"][-1] == "show"
    assert not any(flag.startswith(("-pm", "-lgc", "-r", "--gpu-reset"))
                   for command in PROGRAMS.values() for flag in command)


def test_a_program_that_is_missing_fails_or_hangs_gives_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, body in {"fails": "echo no; exit 1", "hangs": "sleep 60", "says": "echo yes"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "broken").write_bytes(b"\x7fELFbroken")
    (tmp_path / "broken").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("builder.doctor.reading.PROGRAM_S", 0.3)
    assert output_of(("broken",)) is None
    assert fault_of(("broken",)) == "broken does not answer"
    assert output_of(("no-such-program",)) is None
    assert output_of(("fails",)) is None
    assert output_of(("hangs",)) is None
    assert output_of(("says",)) == "yes\n"
    assert fault_of(("no-such-program",)) == fault_of(("says",)) == ""
    assert fault_of(("fails",)) == "no"
    assert fault_of(("hangs",)) == "hangs does not answer"


def test_the_containers_of_processes_are_in_the_kernels_files(tmp_path: Path) -> None:
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/cgroup").write_text("0::/system.slice/docker-4f.scope\n")
    answers = {"nvidia-smi": "77, VLLM::EngineCore, 69564\n78, gone, 5\n../etc, x, 1\nbroken"}
    raw = read_host((), tmp_path, lambda command: answers.get(command[0]))
    assert raw.cgroups == {77: "0::/system.slice/docker-4f.scope"}


def test_a_file_system_without_blocks_keeps_no_files() -> None:
    assert not look_at_folder(Path("/proc/x")).writable


def test_a_large_file_is_read_at_its_beginning_only(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 1_000_000)
    assert len(text_of(tmp_path / "large") or "") == 1 << 16
    assert text_of(tmp_path / "absent") is None


def test_a_folder_says_whether_it_is_there_and_writable(tmp_path: Path) -> None:
    here = look_at_folder(tmp_path)
    assert here.exists
    assert here.writable
    assert here.foreign == ()
    assert here.free > 0
    assert not here.problem
    below = look_at_folder(tmp_path / "a" / "b")
    assert (below.exists, below.writable, below.problem) == (False, True, "")
    assert list(tmp_path.iterdir()) == []  # trying left nothing


def test_what_permissions_allow_and_the_file_system_refuses(tmp_path: Path) -> None:
    """Root may do all by its permissions, and still /proc takes no file."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    found = {path: look_at_folder(path) for path in (
        Path("/proc/x"), tmp_path / "file", tmp_path / "file" / "below", tmp_path / "link" / "x",
        tmp_path / ("x" * 300))}
    assert not any(folder.writable for folder in found.values())
    assert [folder.problem for folder in found.values()] == [
        "its file system keeps no files", f"{tmp_path}/file is no folder",
        f"{tmp_path}/file is no folder", f"{tmp_path}/link is a link to nothing",
        f"{tmp_path}/{'x' * 300}: File name too long"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_folder_that_may_not_be_entered_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o000)
    inside = look_at_folder(tmp_path / "closed" / "cache")
    assert (inside.writable, inside.problem) == (False, "")


@pytest.mark.parametrize(("number", "problem"), [
    (errno.ENOSPC, "No space left on device"), (errno.EOPNOTSUPP, "")])
def test_a_folder_where_no_file_can_be_made_says_why(
        number: int, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("builder.doctor.reading.os.open", refuse)
    assert look_at_folder(tmp_path).problem == problem
