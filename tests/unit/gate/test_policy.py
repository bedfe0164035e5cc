"""The policy: which rule applies to a file, and what holds for a file without one."""

from __future__ import annotations

from builder.gate.policy import Need, Policy, Rule, policy

NEVER = Rule(pattern="a/*", gpus="sm_12*", need=Need.NEVER, reason="r", link="l")
OPTIONAL = Rule(pattern="a/*", need=Need.OPTIONAL, reason="r", link="l")


def test_the_first_rule_that_matches_file_and_gpu_applies() -> None:
    rules = Policy(rule_list=(NEVER, OPTIONAL))
    assert rules.rule("a/b.so", "sm_121") is NEVER
    assert rules.rule("a/b.so", "sm_90") is OPTIONAL


def test_a_rule_holds_for_its_versions_alone() -> None:
    shipped = policy()
    path = "vllm/third_party/deep_gemm/_C.abi3.so"
    assert shipped.rule(path, "sm_121", "0.20.2").need is Need.NEVER
    assert shipped.rule(path, "sm_121", "0.24.0").need is Need.REQUIRED
    assert shipped.rule(path, "sm_121").need is Need.REQUIRED  # a version that is not known


def test_a_stub_has_its_own_rule_or_that_of_its_file() -> None:
    rules = Policy(rule_list=(NEVER,), stubs=(OPTIONAL.model_copy(update={"kernels": "*x*"}),))
    assert rules.stub("a/b.so", "_Z1xv", "sm_121", "1").need is Need.OPTIONAL
    assert rules.stub("a/b.so", "_Z1yv", "sm_121", "1") is NEVER


def test_a_file_without_a_rule_must_have_code() -> None:
    rule = Policy(rule_list=(NEVER,)).rule("b/c.so", "sm_121")
    assert rule.need is Need.REQUIRED
    assert "policy.toml" in rule.reason


def test_what_ships_excuses_hoppers_attention_on_a_gb10_and_nothing_of_torch() -> None:
    shipped = policy()
    assert shipped.rule("vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so", "sm_121").need is Need.NEVER
    assert shipped.rule("vllm/_C.abi3.so", "sm_121").need is Need.REQUIRED
    assert shipped.rule("torch/lib/libtorch_cuda.so", "sm_121").need is Need.REQUIRED
