"""Which GPU code runs on which GPU, and what may be without."""

from __future__ import annotations

import pytest

from builder.binaries.facts import Code, ElfFacts, Form, WheelFacts
from builder.gate.coverage import Fit, check_coverage, cover, fit
from builder.gate.policy import Need, Policy, Rule, policy


@pytest.mark.parametrize(("form", "arch", "variant", "wanted"), [
    ("sass", 121, "", Fit.NATIVE), ("sass", 121, "a", Fit.NATIVE), ("sass", 121, "f", Fit.NATIVE),
    ("sass", 120, "", Fit.FAMILY), ("sass", 120, "f", Fit.FAMILY), ("sass", 120, "a", Fit.NONE),
    ("sass", 100, "", Fit.NONE), ("sass", 100, "f", Fit.NONE), ("sass", 103, "a", Fit.NONE),
    ("sass", 110, "", Fit.NONE), ("sass", 90, "a", Fit.NONE), ("sass", 80, "", Fit.NONE),
    ("ptx", 80, "", Fit.JIT), ("ptx", 121, "", Fit.JIT), ("ptx", 120, "f", Fit.JIT),
    ("ptx", 121, "a", Fit.JIT), ("ptx", 120, "a", Fit.NONE), ("ptx", 90, "a", Fit.NONE),
    ("ptx", 100, "f", Fit.NONE), ("ptx", 130, "", Fit.NONE)])
def test_what_loads_on_sm_121(form: str, arch: int, variant: str, wanted: Fit) -> None:
    assert fit(Code(Form(form), arch, variant, 1, 10), "sm_121") is wanted


def test_newer_code_of_the_family_does_not_load_on_an_older_gpu() -> None:
    assert fit(Code(Form.SASS, 121, "", 1, 10), "sm_120") is Fit.NONE


def a_wheel(path: str, *codes: Code) -> WheelFacts:
    return WheelFacts("w-1-py3-none-any.whl", "0" * 64, "w", "1",
                      elves=(ElfFacts(path, "aarch64", cuda=codes),))


def findings(path: str, *codes: Code, rules: Policy | None = None) -> list[tuple[str, str]]:
    covered = cover([a_wheel(path, *codes)], "sm_121", rules)
    return [(found.code.value, found.severity.value)
            for found in check_coverage(covered, "sm_121")]


SM_80 = Code(Form.SASS, 80, "", 2, 100)
PTX_80 = Code(Form.PTX, 80, "", 2, 40)
SM_120A = Code(Form.SASS, 120, "a", 2, 100)


def test_a_required_file_without_code_is_an_error() -> None:
    assert findings("vllm/_C.abi3.so", SM_80) == [("no-gpu-code", "error")]


def test_the_same_file_with_ptx_is_compiled_at_first_use() -> None:
    assert findings("vllm/_C.abi3.so", SM_80, PTX_80) == []
    assert cover([a_wheel("x.so", SM_80, PTX_80)], "sm_121")[0].fit is Fit.JIT


def test_arch_exact_only_has_a_code_of_its_own() -> None:
    assert findings("vllm/_C.abi3.so", SM_80, SM_120A) == [("arch-exact-only", "error")]


def test_arch_exact_beside_plain_code_is_fine() -> None:
    assert findings("vllm/_C.abi3.so", SM_120A, Code(Form.SASS, 120, "", 1, 1)) == []


def test_what_vllm_never_calls_here_is_a_note() -> None:
    hopper = Code(Form.SASS, 90, "a", 1, 100)
    path = "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so"
    assert findings(path, hopper) == [("no-gpu-code", "note")]
    assert findings("vllm/another.abi3.so", hopper) == [("no-gpu-code", "error")]


def test_what_can_be_done_without_is_a_warning() -> None:
    rules = Policy(rule_list=(Rule(pattern="a/*", need=Need.OPTIONAL, reason="r", link="l"),))
    assert findings("a/b.so", SM_80, rules=rules) == [("no-gpu-code", "warning")]


def test_dead_weight_is_what_never_runs() -> None:
    found, = cover([a_wheel("x.so", SM_80, PTX_80, Code(Form.SASS, 121, "", 1, 7))], "sm_121")
    assert (found.fit, found.size, found.dead) == (Fit.NATIVE, 147, 140)


def test_loose_cubins_of_a_wheel_are_one_row() -> None:
    wheel = WheelFacts("f.whl", "0" * 64, "f", "1", cubins=tuple(
        (f"flashinfer_cubin/cubins/{number}.cubin", Code(Form.SASS, 100, "a", 1, 10))
        for number in range(3)))
    found, = cover([wheel], "sm_121")
    assert (found.file, found.size, found.need) == ("flashinfer_cubin/*.cubin", 30, Need.NEVER)


def test_every_rule_has_a_reason_and_a_source() -> None:
    for rule in policy().rule_list:
        assert rule.reason
        assert rule.link.startswith("https://")
