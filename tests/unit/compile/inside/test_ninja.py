"""ninja driven: jobs by memory, fewer after one was killed, other failures at once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from builder.compile.inside import ninja

RULES = """
rule cc
  command = {command}
  description = CC $out
build a.o: cc
build b.o: cc
build all: phony a.o b.o
"""
# A compiler of which one run is killed for memory, once; it says what nvcc says.
KILLED = ("if [ $out = b.o ] && mkdir once; then "
          "echo \"nvcc error : 'cicc' died due to signal 9 (Kill signal)\"; exit 1; fi; touch $out")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("ninja") is None:
        pytest.skip("no ninja on this machine")
    measures = tmp_path / "measures"
    measures.mkdir()
    monkeypatch.setenv("SPARKYARD_MEASURES", str(measures))
    return tmp_path


def build(folder: Path, command: str) -> Path:
    (folder / "build.ninja").write_text(RULES.format(command=command))
    return folder


def test_a_killed_job_is_tried_again_with_those_that_fit(
        folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attempts = ninja.run(build(folder, KILLED), ["all"], 2, 1 << 50, folder / "log.txt")
    assert [(each.jobs, each.killed) for each in attempts] == [(2, True), (1, False)]
    assert attempts[-1].status == 0
    said = capsys.readouterr().out
    assert '@killed {"jobs": 2, "next": 1}' in said
    assert "@[2/2" in said or "@[1/1" in said
    assert "died due to signal 9" in (folder / "log.txt").read_text()


def test_any_other_failure_is_not_tried_again(folder: Path) -> None:
    attempts = ninja.run(build(folder, "echo 'x.cu(1): error: no'; exit 1"), ["all"], 2, 1,
                         folder / "log.txt")
    assert [(each.jobs, each.killed) for each in attempts] == [(2, False)]
    assert attempts[0].status != 0


def test_one_job_that_is_killed_ends_it(folder: Path) -> None:
    command = "echo 'g++: fatal error: Killed signal terminated program cc1plus'; exit 1"
    attempts = ninja.run(build(folder, command), ["a.o"], 1, 1, folder / "log.txt")
    assert [(each.jobs, each.killed) for each in attempts] == [(1, True)]
    assert attempts[0].killed_objects == ["a.o"]


@pytest.mark.parametrize(("memory", "each", "cores", "jobs"), [
    (24 << 30, 10 << 30, 20, 2), (24 << 30, 10 << 30, 1, 1), (8 << 30, 10 << 30, 20, 1),
    (120 << 30, 10 << 30, 20, 12), (1, 0, 4, 1)])
def test_as_many_jobs_as_the_memory_allows(memory: int, each: int, cores: int, jobs: int) -> None:
    assert ninja.fitting(memory, each, cores) == jobs


def test_the_memory_of_this_machine_is_known() -> None:
    assert 0 < ninja.available_memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_an_order_is_made_with_the_jobs_it_asks_for_and_leaves_its_facts(
        folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = {"jobs": 3, "memory": 1}
    facts = ninja.make(order, build(folder, "touch $out"), ["all"], folder / "log.txt")
    assert facts["attempts"] == [{"jobs": 3, "status": 0, "killed": False, "killed_objects": []}]
    assert facts["available_memory"] > 0
    assert '@jobs {"jobs": 3,' in capsys.readouterr().out
    facts = ninja.make({"jobs": None, "memory": 1 << 60}, folder, ["-f", str(
        folder / "build.ninja"), "a.o"], folder / "log.txt")
    assert facts["attempts"][-1]["jobs"] == 1
