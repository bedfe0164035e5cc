"""Each finding about memory: a recipe where it fires, and a neighbour where it stays quiet."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cells_for_tests import CPU as CPU_IMAGE
from cells_for_tests import GPU as GPU_IMAGE
from cells_for_tests import make_cell

from builder.matrix.cells import Cell
from builder.recipes.check import Finding, Vllms
from builder.recipes.memory import CPU, GB10, Estimate, Rules
from builder.recipes.memory_check import (
    SPECS,
    UTILS,
    check_memory,
    machine_of,
    rules_in,
    summary,
)
from builder.recipes.models import Recipe
from builder.recipes.rules import Severity
from builder.recipes.wheel_sources import WheelSources
from builder.store.content_store import Store

ROOT = Path(__file__).parents[3]
GPU, HOST = make_cell(GPU_IMAGE), make_cell(CPU_IMAGE)
FIGURE = {"name": "KV cache", "unit": "tokens", "why": "w",
          "pattern": "KV cache size: (?P<value>[\\d,]+) tokens"}


def recipe(*serve: str, model: str = "google/gemma-4-31B-it", **changed: Any) -> Recipe:
    return Recipe.model_validate({
        "name": "r", "schema": 1, "description": "d", "family": "other", "image": "img",
        "model": {"repository": model, "unpinned_because": "a test", "parameters_billion": 31,
                  "active_billion": 31},
        "serve": ("--kv-cache-dtype", "fp8", "--max-num-seqs", "64", *serve), **changed})


def tiny(environment: Mapping[str, str]) -> Recipe:
    return Recipe.model_validate({
        "name": "r", "schema": 1, "description": "d", "family": "gemma4", "image": "img",
        "model": {"path": "tests/fixtures/tiny-gemma4", "parameters_billion": 0.001,
                  "active_billion": 0.001}, "serve": (), "environment": environment})


@pytest.fixture
def vllms(tmp_path: Path) -> Vllms:
    return Vllms(Store(tmp_path / "cache"))


def found(made: Recipe, vllms: Vllms, cell: Cell = GPU, root: Path = ROOT
          ) -> tuple[Estimate | None, list[Finding]]:
    return check_memory(root, made, cell, None, vllms)


def only(made: Recipe, vllms: Vllms, cell: Cell = GPU, root: Path = ROOT) -> Finding:
    findings = found(made, vllms, cell, root)[1]
    assert len(findings) == 1, findings
    return findings[0]


def test_a_recipe_that_fits_is_quiet_and_has_its_line(vllms: Vllms) -> None:
    estimate, findings = found(recipe("--max-model-len", "65536", "--gpu-memory-utilization",
                                      "0.85"), vllms)
    assert findings == []
    assert estimate is not None
    assert "the longest that fits has 262,144" in summary(estimate)


def test_a_length_that_does_not_fit_is_an_error_with_one_that_does(vllms: Vllms) -> None:
    words = ("--gpu-memory-utilization", "0.62")
    wrong = only(recipe("--max-model-len", "262144", *words), vllms)
    assert wrong.severity is Severity.ERROR
    length = wrong.next_step.split()[3].rstrip(",")
    assert int(length) > 10_000
    assert found(recipe("--max-model-len", length, *words), vllms)[1] == []


def test_a_length_that_nearly_fits_is_a_warning(vllms: Vllms) -> None:
    words = ("--gpu-memory-utilization", "0.62")
    estimate, _ = found(recipe("--max-model-len", "262144", *words), vllms)
    assert estimate is not None
    near = only(recipe("--max-model-len", str(int(estimate.longest * 1.05)), *words), vllms)
    assert near.severity is Severity.WARNING
    assert "a server boots only sometimes" in near.what


def test_weights_that_leave_nothing_are_an_error(vllms: Vllms) -> None:
    wrong = only(recipe("--gpu-memory-utilization", "0.4"), vllms)
    assert wrong.severity is Severity.ERROR
    assert "leave nothing for the KV cache" in wrong.what


def test_a_loader_that_holds_the_weights_twice_is_an_error_on_a_spark(vllms: Vllms) -> None:
    words = ("--gpu-memory-utilization", "0.85", "--max-model-len", "4096")
    wrong = only(recipe("--load-format", "fastsafetensors", *words), vllms)
    assert "loading holds about 117 GiB at once" in wrong.what
    assert found(recipe("--load-format", "safetensors", *words), vllms)[1] == []


@pytest.mark.parametrize(("bound", "fires"), [
    ({"at_least": 1_000_000_000}, True), ({"at_most": 1000}, True), ({"at_least": 1000}, False),
    ({"at_most": 1000, "on": "cuda"}, True), ({"at_most": 1000, "on": "cpu"}, False)])
def test_a_bound_of_the_log_that_the_estimate_contradicts(vllms: Vllms, bound: dict[str, Any],
                                                          fires: bool) -> None:
    words = ("--gpu-memory-utilization", "0.85", "--max-model-len", "65536")
    other = {**FIGURE, "name": "other", "pattern": "pages (?P<value>\\d+)", "at_least": 9e9}
    made = recipe(*words, log={"figure": [{**FIGURE, **bound}, other]})
    findings = found(made, vllms)[1]
    assert ["the log's figure 'KV cache'" in finding.what for finding in findings] == (
        [True] if fires else [])


def test_what_is_not_known_is_said(vllms: Vllms, tmp_path: Path) -> None:
    unknown = only(recipe(model="a/b"), vllms)
    assert unknown.what == "nothing is known of the size of a/b: the memory was not estimated"
    assert unknown.severity is Severity.WARNING
    drafted = recipe("--gpu-memory-utilization", "0.85", "--max-model-len", "65536",
                     "--speculative-config", '{"model": "a/b"}')
    assert "the drafter a/b" in only(drafted, vllms).what
    other = make_cell({**GPU_IMAGE, "gpu": "sm_100"})
    assert machine_of(other) is None
    assert "the memory of a GPU of sm_100" in only(recipe(), vllms, other).what
    (tmp_path / "tests" / "fixtures" / "tiny-gemma4").mkdir(parents=True)
    broken = only(tiny({"VLLM_CPU_KVCACHE_SPACE": "1"}), vllms, HOST, tmp_path)
    assert "the checkpoint cannot be read" in broken.what


def test_a_cpu_server_needs_its_space_named(vllms: Vllms) -> None:
    assert "a share of the host's memory" in only(tiny({}), vllms, HOST).what
    estimate, findings = found(tiny({"VLLM_CPU_KVCACHE_SPACE": "1"}), vllms, HOST)
    assert findings == []
    assert estimate is not None
    assert "own share" not in summary(estimate)
    assert (machine_of(HOST), machine_of(GPU)) == (CPU, GB10)


def sources(tmp_path: Path, utils: str, specs: str) -> WheelSources:
    path = tmp_path / "vllm-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(UTILS, utils)
        archive.writestr(SPECS, specs)
    return WheelSources(path)


def test_how_a_vllm_counts_is_read_from_its_sources(tmp_path: Path) -> None:
    old = sources(tmp_path, "n // len(kv_cache_config.kv_cache_groups)", "")
    assert rules_in(old, "9.9") == Rules(counts_blocks=True, overlaps=False)
    assert rules_in(sources(tmp_path, "", "max_in_flight_tokens"), "0.1") == Rules()


@pytest.mark.parametrize(("version", "counts_blocks", "overlaps"), [
    ("0.19.0", True, False), ("0.20.2", False, False), ("0.32.0", False, True)])
def test_without_sources_the_version_says_how_it_counts(
        version: str, counts_blocks: bool, overlaps: bool, tmp_path: Path) -> None:
    assert rules_in(None, version) == Rules(
        counts_blocks=counts_blocks, overlaps=overlaps,
        basis=f"as vLLM {version} counts (by its version; its sources were not read)")
    path = tmp_path / "vllm-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vllm/elsewhere.py", "")
    assert rules_in(WheelSources(path), version) == rules_in(None, version)


def test_an_unknown_version_counts_as_the_newest_and_says_so() -> None:
    assert rules_in(None, "") == Rules(
        basis="as vLLM 0.32.0 counts (the cell's version is not known)")
