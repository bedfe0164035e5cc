"""The gate on the closures of the committed locks, as they are and with one real wheel exchanged.

The exchanged wheels are those of other locks, so that every byte here is one that somebody locked.
"""

from __future__ import annotations

import dataclasses
import json
import re
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from builder import cli
from builder.bases.facts import committed
from builder.bases.state import read_bases
from builder.binaries.facts import BaseFacts, WheelFacts
from builder.binaries.wheel_facts import read_wheels
from builder.fetch.wheels import fetch_lock
from builder.gate.judge import judge, request_of
from builder.gate.metadata import environment, is_whole
from builder.indexes.settings import DEFAULT_INDEX
from builder.locking.findings import Finding
from builder.locking.lock import LockedWheel, read_lock
from builder.matrix.cells import Cell
from builder.store.content_store import Store
from builder.workspace import cache_folder, open_workspace

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "tests" / "fixtures" / "sarif-subset.json"
WORKSPACE = open_workspace(ROOT / "matrix.toml")

# In no lock, since it can never work.
VLLM_0_19 = LockedWheel(
    name="vllm", version="0.19.0", file="vllm-0.19.0-cp38-abi3-manylinux_2_31_aarch64.whl",
    sha256="6ab90ccca5d7ca3bd2c8f90133f0fac85e8f4af582a1c67c6cc3f63c615521e3", size=384650557,
    index=DEFAULT_INDEX)


def cell(name: str) -> Cell:
    return next(one for one in WORKSPACE.cells if one.id == name)


def base(name: str) -> BaseFacts:
    found = committed(WORKSPACE.locks, read_bases(WORKSPACE).committed[
        cell(name).base_name, cell(name).platform])
    assert found is not None, "the committed facts are of another base than the lock's"
    return found


@cache
def closure(name: str, only: str = "") -> dict[str, WheelFacts]:
    """Return the facts of a lock's wheels by name, or of one of them."""
    lock = read_lock(ROOT / "locks" / f"{name}.toml")
    chosen = tuple(one for one in lock.wheels if only in ("", one.name))
    lock = lock.model_copy(update={"wheels": chosen})
    paths = fetch_lock(lock, Store(cache_folder()), cell(name).indexes).paths
    read = read_wheels([(paths[one], one.sha256) for one in chosen], cache_folder())
    return {one.name: facts for one, facts in zip(chosen, read, strict=True)}


def errors(name: str, wheels: dict[str, WheelFacts], on: BaseFacts | None = None
           ) -> list[Finding]:
    """Judge a changed closure, without what its METADATA says of versions."""
    report = judge(request_of(cell(name)), list(wheels.values()), on or base(name))
    return [one for one in report.errors if one.code != "unmet-requirement"]


@pytest.mark.parametrize("name", ["tf5", "cpu", "cpu-arm64"])
def test_a_committed_closure_raises_no_alarm(
        name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gate.sarif"
    code = cli.run(["--matrix", str(ROOT / "matrix.toml"), "gate", name, "--sarif", str(file)])
    out = capsys.readouterr().out
    assert code == 0, out
    assert re.search(rf"^PASSED: gate {name} on slim: \d+ wheels, .*, 0 errors", out, re.MULTILINE)
    log = json.loads(file.read_text())
    jsonschema.validate(log, json.loads(SCHEMA.read_text()))
    assert "error" not in {one["level"] for one in log["runs"][0]["results"]}


def test_tf5_says_what_runs_what_is_compiled_and_what_is_dead_weight(
        capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--matrix", str(ROOT / "matrix.toml"), "gate", "tf5",
                    "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    fits = {one["file"].rpartition("/")[2]: one["fit"] for one in report["covered"]}
    assert fits["_C.abi3.so"] == "same family"
    assert fits["_vllm_fa2_C.abi3.so"] == "JIT at first use"
    assert fits["_vllm_fa3_C.abi3.so"] == "cannot load"
    assert fits["libcublasLt.so.13"] == "native"
    dead = {one["file"]: one["dead"] for one in report["covered"]}
    assert dead["flashinfer_cubin/*.cubin"] > 1_000_000_000
    notes = {one["file"]: one for one in report["findings"] if one["severity"] == "note"}
    assert "Hopper" in notes["vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so"]["what"]


def test_torch_2_13_below_vllm_of_torch_2_11() -> None:
    changed = {**closure("tf5"), "torch": closure("latest", "torch")["torch"]}
    found = [one for one in errors("tf5", changed) if one.code == "undefined-symbol"]
    assert any(one.file.startswith("vllm/") for one in found)
    said = "\n".join(one.what for one in found)
    assert "at::cuda::getCurrentCUDABlasHandle()" in said
    assert errors("tf5", closure("tf5")) == []


def test_torchaudio_2_11_beside_torch_2_10() -> None:
    other = closure("tf5", "torchaudio")["torchaudio"]
    found = errors("cpu-arm64", {**closure("cpu-arm64"), "torchaudio": other})
    assert {one.wheel for one in found} == {other.file}
    assert {one.code.value for one in found} & {"undefined-symbol", "missing-library"}


def test_without_libnuma_the_debian_package_is_named() -> None:
    whole = base("cpu-arm64")
    without = dataclasses.replace(whole, libraries=tuple(
        one for one in whole.libraries if "libnuma" not in one.path))
    assert len(without.libraries) < len(whole.libraries)
    found = errors("cpu-arm64", closure("cpu-arm64"), without)
    assert {(one.code.value, one.expected) for one in found} == {
        ("missing-library", "libnuma.so.1")}
    assert all("Debian package libnuma1" in one.next_step for one in found)
    assert errors("cpu-arm64", closure("cpu-arm64")) == []


def test_the_default_indexes_vllm_0_19_on_the_torch_that_it_resolves_to() -> None:
    """Its aarch64 wheel there is for CUDA 12, and torch 2.10.0 there for the CPU."""
    lock = read_lock(ROOT / "locks" / "cpu-arm64.toml").model_copy(update={"wheels": (VLLM_0_19,)})
    (path,) = fetch_lock(lock, Store(cache_folder()), {}).paths.values()
    (vllm,) = read_wheels([(path, VLLM_0_19.sha256)], cache_folder())
    found = errors("cpu-arm64", {**closure("cpu-arm64"), "vllm": vllm})
    lacking = {one.expected for one in found if one.file.startswith("vllm/")}
    assert {"libcudart.so.12", "libtorch_cuda.so"} <= lacking


def test_a_lone_wheel_is_judged_as_a_part_and_a_pair_by_what_it_says_of_itself() -> None:
    asked, on = request_of(cell("tf5")), base("tf5")
    markers = environment(asked.python, asked.machine)
    whole = closure("tf5")
    parts = dataclasses.replace(asked, whole=False)
    assert is_whole(list(whole.values()), markers)
    assert not is_whole([whole["vllm"]], markers)
    alone = judge(parts, [whole["vllm"]], on)
    assert alone.errors == ()
    assert sum(one.code == "not-a-closure" for one in alone.findings) == 1
    assert judge(parts, [whole["vllm"], whole["torch"]], on).errors == ()
    wrong = judge(parts, [whole["vllm"], closure("latest", "torch")["torch"]], on)
    assert {one.code.value for one in wrong.errors} == {
        "unmet-requirement", "undefined-symbol"}
    assert "at::cuda::getCurrentCUDABlasHandle()" in "".join(one.what for one in wrong.errors)


def test_without_a_base_a_pair_is_judged_by_what_torch_alone_can_define() -> None:
    """Beside torch 2.13.0, vLLM 0.20.2 is an error without --base too; beside 2.11.0 it is not."""
    parts = dataclasses.replace(request_of(cell("tf5")), whole=False, glibc="")
    vllm = closure("tf5", "vllm")["vllm"]
    assert judge(parts, [vllm, closure("tf5", "torch")["torch"]], None).errors == ()
    wrong = judge(parts, [vllm, closure("latest", "torch")["torch"]], None)
    lacking = [one for one in wrong.errors if one.code == "undefined-symbol"]
    assert {"vllm/_C.abi3.so", "vllm/_moe_C.abi3.so"} <= {one.file for one in lacking}
    assert "at::cuda::getCurrentCUDABlasHandle()" in "".join(one.what for one in lacking)
    assert wrong.not_judged[0] == "system libraries and the toolchain (no base)"


def test_a_whole_closure_without_a_base_raises_no_alarm() -> None:
    report = judge(request_of(cell("tf5")), list(closure("tf5").values()), None)
    assert report.errors == ()
    assert len(report.not_judged) == 1


def test_a_cpu_torch_below_a_vllm_for_cuda() -> None:
    changed = {**closure("tf5"), "torch": closure("cpu-arm64", "torch")["torch"]}
    found = errors("tf5", changed)
    assert {"libtorch_cuda.so"} <= {one.expected for one in found if one.code == "missing-library"}


def test_without_nvcc() -> None:
    without = {name: one for name, one in closure("tf5").items()
               if name != "nvidia-cuda-nvcc"}
    found = errors("tf5", without)
    assert {"nvcc", "ptxas"} <= {one.expected for one in found if one.code == "toolchain-missing"}
