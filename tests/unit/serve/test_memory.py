"""Memory is free when processes and driver say so; who holds it is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder.doctor.facts import GpuProcess
from builder.doctor.needs import DEFAULT_SHARE
from builder.serve.memory import (
    GIB,
    Look,
    await_free,
    holders,
    identities,
    lacking,
    look,
    needed,
    remaining,
)
from tests.unit.played_servers import WORKSPACE, recipe

GPU = next(cell for cell in WORKSPACE.cells if cell.id == "tf5")
CPU = next(cell for cell in WORKSPACE.cells if cell.id == "cpu")
SERVER = GpuProcess(pid=77, name="/opt/VLLM::EngineCore", memory=60 * GIB)


def proc(folder: Path, state: str = "S", ticks: int = 5) -> Path:
    for pid, name, kib in ((77, "VLLM", 4 << 20), (88, "ollama", 9 << 20), (99, "sh", 100)):
        (folder / str(pid)).mkdir(exist_ok=True)
        fields = " ".join([state, *["0"] * 18, str(ticks), "0"])
        (folder / str(pid) / "stat").write_text(f"{pid} ({name}) {fields}")
        (folder / str(pid) / "comm").write_text(f"{name}\n")
        (folder / str(pid) / "status").write_text(f"Name:\t{name}\nVmRSS:\t{kib} kB\n")
    return folder


def test_this_machine_can_be_looked_at() -> None:
    found = look()
    assert found.total > found.available > 0
    assert os.getpid() in identities(frozenset({os.getpid()}))


def test_a_process_that_lives_remains_and_a_zombie_or_a_new_one_does_not(tmp_path: Path) -> None:
    pids = identities(frozenset({77, 5}), proc(tmp_path))
    assert pids == {77: "5"}
    now = Look(128 * GIB, 0, (SERVER,))
    assert remaining(pids, now, tmp_path) == ("process 77 (VLLM), 64.4 GB of the GPU's",)
    assert remaining(pids, Look(1, 1, None), proc(tmp_path, "Z")) == ()
    assert remaining(pids, Look(1, 1, None), proc(tmp_path, ticks=6)) == (), "an id used again"


def test_free_is_when_the_gpu_memory_is_back(tmp_path: Path) -> None:
    before = Look(128 * GIB, 10 * GIB, (SERVER,), unified=True)
    held = Look(128 * GIB, 12 * GIB, ())
    free = Look(128 * GIB, 70 * GIB, ())
    moments = [held, free]
    assert await_free({77: "5"}, before, proc=tmp_path, see=lambda: moments.pop(0)) == ()
    said = await_free({77: "5"}, before, proc=proc(tmp_path, ticks=9), within=0, see=lambda: held)
    assert "of the GPU's, by none of its processes" in said[0]
    assert said[1] == "ollama (process 88, 9.7 GB)"


def test_a_server_on_the_cpu_is_gone_with_its_processes(tmp_path: Path) -> None:
    now = Look(8 * GIB, 1 * GIB, None)
    assert await_free({77: "5"}, now, proc=tmp_path, within=0, see=lambda: now) == ()
    assert await_free({77: "5"}, now, proc=proc(tmp_path), within=0, see=lambda: now) == (
        "process 77 (VLLM)",)


def test_what_a_server_takes_is_read_from_its_recipe() -> None:
    gpu = recipe("gemma4-26b-a4b-fp8")
    spark = Look(100 * GIB, 0, (), unified=True)
    assert needed(gpu, GPU, spark) == 70 * GIB
    assert needed(gpu.model_copy(update={"serve": ("--gpu-memory-utilization=0.5",)}), GPU,
                  spark) == 50 * GIB
    assert needed(gpu.model_copy(update={"serve": ("--gpu-memory-utilization=0.5.5",)}), GPU,
                  spark) == 50 * GIB, "what is no number is no traceback"
    assert needed(gpu.model_copy(update={"serve": (f"--gpu-memory-utilization={'9' * 400}",)}),
                  GPU, spark) > 100 * GIB
    assert needed(gpu.model_copy(update={"serve": ()}), GPU, spark) == int(
        DEFAULT_SHARE * spark.total)
    assert needed(gpu, GPU, Look(100 * GIB, 0, ())) == 0, "that GPU has memory of its own"
    assert needed(recipe("tiny-gemma4"), CPU, spark) == GIB


def test_the_memory_of_another_gpu_is_not_waited_for_in_the_machine(tmp_path: Path) -> None:
    before = Look(128 * GIB, 100 * GIB, (SERVER,))
    after = Look(128 * GIB, 100 * GIB, ())
    assert await_free({77: "5"}, before, proc=tmp_path, within=0, see=lambda: after) == ()


@pytest.mark.parametrize(("available", "lacks"), [(60, True), (80, False)])
def test_a_server_that_does_not_fit_names_who_holds(
        tmp_path: Path, available: int, *, lacks: bool) -> None:
    now = Look(100 * GIB, available * GIB, (SERVER,), unified=True)
    said = lacking(recipe("gemma4-26b-a4b-fp8"), GPU, now, proc(tmp_path))
    assert bool(said) is lacks
    if lacks:
        assert "VLLM::EngineCore on the GPU (process 77, 64.4 GB), ollama" in said
    assert len(holders(now, tmp_path)) == 2
