"""Whose container is a leftover: only that of a process of this machine that is gone."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from builder.engine.docker import DockerClient
from builder.engine.leftovers import is_alive, own_name, sweep
from tests.unit.fake_docker import fake_docker

A, B, C = "a" * 64, "b" * 64, "c" * 64


def gone() -> str:
    """Return the name of a process that has ended."""
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True, check=True)
    return f"{platform.node()}/{child.stdout.strip()}/1"


def test_this_process_is_alive() -> None:
    assert is_alive(own_name())


def test_a_reused_process_id_is_another_process() -> None:
    assert not is_alive(f"{platform.node()}/{os.getpid()}/1")


def test_a_process_of_another_machine_counts_as_alive() -> None:
    assert is_alive("another-host/1/1")


@pytest.mark.parametrize("owner", ["", "/", "x", "/1/1"])
def test_a_label_of_no_process_of_this_machine_is_left_alone(owner: str) -> None:
    assert is_alive(owner) is (platform.node() != owner.partition("/")[0])


@pytest.mark.parametrize("pid", ["nobody", "", "9" * 40, "²"])
def test_a_label_of_this_machine_without_a_process_is_a_leftover(pid: str) -> None:
    assert not is_alive(f"{platform.node()}/{pid}/1")


def test_only_leftovers_are_removed(tmp_path: Path) -> None:
    note = tmp_path / "removed"
    body = (f"if 'ls' in words: print('{A} {gone()}'); print('{B} {own_name()}'); "
            f"print('--all {gone()}'); print('{C} other/1/1')\n"
            f"else: open({str(note)!r}, 'a').write(' '.join(words) + '\\n')")
    assert sweep(DockerClient((str(fake_docker(tmp_path, body)),))) == 2
    assert note.read_text().splitlines() == [
        f"container rm --force --volumes {A}", f"network rm {A}"]


def test_nothing_is_removed_where_nothing_is_left(tmp_path: Path) -> None:
    body = "assert 'rm' not in words, words"
    assert sweep(DockerClient((str(fake_docker(tmp_path, body)),))) == 0
