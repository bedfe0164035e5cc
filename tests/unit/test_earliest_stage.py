"""Each failure of the field has the earliest check of ours that catches it.

A failure without a check, a check that is gone, and a check that is not tested on a fault and on
its neighbour are red here.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
import tomli

from builder.diagnosis import catalogue
from builder.doctor import judging
from builder.locking.findings import FindingCode
from builder.recipes.rules import load_rules
from builder.smoke import contract
from builder.smoke.probes.cases import battery
from builder.smoke.soak.run import GOES_ON, IDLE, MEMORY

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
FAILURES = [failure["id"] for failure in
            tomli.loads((FIXTURES / "field_failures.toml").read_text(encoding="utf-8"))["failure"]]
TABLE = tomli.loads((FIXTURES / "earliest_stage.toml").read_text(encoding="utf-8"))
CHECKS = sorted({check for row in TABLE.values() for check in row["by"]})
STAGES = ("lock", "gate", "recipe", "doctor", "1a", "2", "bench", "diagnose")
# Where each check of the gate is red on the fault (first) and quiet on its neighbour (second).
GATE = {
    "arch-exact-part": ("gate/test_kernels.py",
                        "test_a_part_with_code_for_120a_alone_is_missing_on_12_1",
                        "test_a_part_with_family_code_beside_120a_is_fine"),
    "compiler-too-old": ("gate/test_jit.py", "test_tritons_ptxas_of_cuda_12_8_is_an_error",
                         "test_a_second_ptxas_for_blackwell_is_enough"),
    "cpu-torch": ("locking/test_version_checks.py", "test_the_check_tells_a_cpu_torch",
                  "test_the_check_lets_a_cpu_cell_have_a_cpu_torch"),
    "empty-kernels": ("gate/test_kernels.py", "test_kernels_that_refuse_are_an_error",
                      "test_kernels_that_refuse_elsewhere_are_not_taken_here"),
    "gemma4-config": ("locking/test_version_checks.py",
                      "test_a_configuration_that_this_vllm_cannot_read",
                      "test_a_configuration_that_this_vllm_cannot_read"),
    "gemma4-unsupported": ("locking/test_version_checks.py",
                           "test_gemma4_fires_on_a_package_too_old_for_gemma4",
                           "test_gemma4_asks_no_flashinfer_of_a_cpu_cell_and_knows_its_vllm"),
    "kernel-sources-missing": ("gate/test_jit.py",
                               "test_deep_gemm_has_sources_for_12_x_where_vllm_uses_it",
                               "test_deep_gemm_has_sources_for_12_x_where_vllm_uses_it"),
    "mixed-flashinfer": ("locking/test_version_checks.py",
                         "test_mixed_flashinfer_fires_on_flashinfer_packages_that_differ",
                         "test_mixed_flashinfer_is_quiet_where_only_the_cuda_suffix_differs"),
    "no-gpu-code": ("gate/test_coverage.py", "test_a_required_file_without_code_is_an_error",
                    "test_the_same_file_with_ptx_is_compiled_at_first_use"),
    "toolchain-missing": ("gate/test_toolchain.py", "test_flashinfers_compiler",
                          "test_a_whole_toolchain_is_fine_from_wheels_and_from_the_base"),
    "transformers-too-new": ("locking/test_version_checks.py",
                             "test_transformers_5_beside_a_vllm_of_before_it",
                             "test_transformers_5_beside_a_vllm_of_before_it"),
    "two-cuda-majors": ("locking/test_version_checks.py", "test_libraries_of_two_cuda_majors",
                        "test_libraries_of_two_cuda_majors"),
    "unbounded": ("gate/test_bounds.py",
                  "test_a_newer_minor_version_than_any_user_was_made_for",
                  "test_one_bound_is_enough"),
    "wrong-glibc-tag": ("gate/test_glibc.py",
                        "test_a_library_that_needs_more_than_the_tag_promises",
                        "test_a_library_that_keeps_the_promise"),
}
# What recipe check and its options judge beside the rules of rules.toml, and where that is tested.
RECIPE = {"version": "test_compatibility.py", "environment": "test_check.py",
          "memory": "test_memory_check.py", "roofline": "test_roofline.py"}
SOAK = (GOES_ON, IDLE, MEMORY)  # tests/unit/smoke/soak/test_judges.py: fire and stay quiet
OUTSIDE = {"1a": ("nvcc compiles for 12.1a", "the image runs the command that it is given"),
           "2": ("boot",), "bench": ("no slower than the baseline",)}


def names(stage: str) -> set[str]:
    """Return the names of a stage's checks."""
    if stage in ("lock", "gate"):
        return set(FindingCode)
    if stage == "recipe":
        return {rule.name for rule in load_rules()} | set(RECIPE)
    if stage == "doctor":
        return set(judging.rules())
    if stage == "diagnose":
        known = catalogue.load()
        return {one.name for one in (*known.issue, *known.reported)} | {"-"}
    looks = {look for launch in contract.LAUNCHES for look in launch.looks}
    own = {"1a": titles(looks), "2": {*(case.name for case in battery().cases), *SOAK}}
    return own.get(stage, set()) | set(OUTSIDE[stage])


def titles(looks: set[str]) -> set[str]:
    """Return what the script of the image contract calls its looks."""
    text = (ROOT / "builder/smoke/inside/contract.py").read_text(encoding="utf-8")
    (found,) = (node.value for node in ast.parse(text).body if isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name) and node.target.id == "LOOKS")
    assert isinstance(found, ast.Dict)
    return {ast.literal_eval(value.elts[0]) for key, value in zip(found.keys, found.values,
                                                                  strict=True)
            if isinstance(value, ast.Tuple) and key and ast.literal_eval(key) in looks}


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_failure_has_its_earliest_check() -> None:
    assert list(TABLE) == FAILURES
    assert len(TABLE) >= 136


@pytest.mark.parametrize("failure", TABLE)
def test_its_checks_exist(failure: str) -> None:
    for check in TABLE[failure]["by"]:
        stage, _, name = check.partition(" ")
        assert name in names(stage), check


@pytest.mark.parametrize("failure", TABLE)
def test_the_earliest_comes_first_and_a_late_one_has_a_reason(failure: str) -> None:
    stages = [check.partition(" ")[0] for check in TABLE[failure]["by"]]
    assert stages
    if stages[0] in ("bench", "diagnose"):
        assert TABLE[failure].get("why"), "why can nothing catch it before?"
    ranks = [STAGES.index(stage) for stage in stages]
    assert min(ranks) == ranks[0] or TABLE[failure].get("why")


@pytest.mark.parametrize("check", [one for one in CHECKS if one.startswith(("gate ", "lock "))])
def test_a_check_of_the_gate_is_tested_on_a_fault_and_on_its_neighbour(check: str) -> None:
    code = check.partition(" ")[2]
    if code not in GATE:  # those of the loader and of metadata: named in their tests
        tests = (ROOT / "tests/unit/gate").glob("test_*.py")
        assert any(f'"{code}"' in path.read_text(encoding="utf-8") for path in tests)
        return
    file, red, quiet = GATE[code]
    assert {red, quiet} <= functions(ROOT / "tests/unit" / file)


@pytest.mark.parametrize("check", [one for one in CHECKS if one.startswith("recipe ")])
def test_a_rule_for_recipes_is_tested_on_a_fault_and_on_its_neighbour(check: str) -> None:
    name, folder = check.partition(" ")[2], ROOT / "tests/unit/recipes"
    if name in RECIPE:
        assert (folder / RECIPE[name]).exists()
    else:  # each of its CASES is a faulty recipe and its neighbour
        assert f'    "{name}": (' in (folder / "test_rules.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("check", [one for one in CHECKS if one.startswith("doctor ")])
def test_a_check_of_the_doctor_is_tested_on_an_unfit_host(check: str) -> None:
    name = check.partition(" ")[2]  # the healthy Spark in the same file is its neighbour
    text = (ROOT / "tests/unit/doctor/test_judging.py").read_text(encoding="utf-8")
    assert f'("{name}", {{' in text
    assert "test_a_healthy_spark_passes_everything" in text
