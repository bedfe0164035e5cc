"""Each kind of wrong argument is named, and the argument as it should be is not."""

from __future__ import annotations

import fake_vllm
import pytest

from builder.recipes.flag_check import Argument, Problem, arguments, problems
from builder.recipes.server_flags import Flag, read_flags
from builder.recipes.wheel_sources import WheelSources


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> tuple[Flag, ...]:
    return read_flags(WheelSources(fake_vllm.wheel(tmp_path_factory.mktemp("wheel"))))


def only(flags: tuple[Flag, ...], *serve: str) -> Problem:
    found = list(problems(serve, flags))
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("serve", [
    ("--quantization", "fp8"), ("-q", "modelopt"), ("--quantization=FP8",),
    ("--max_model_len", "131072"), ("--max-model-len", "128k"), ("--max-model-len=auto",),
    ("--gpu-memory-utilization", "0.85"), ("--gpu-memory-utilization", ".5"),
    ("--enforce-eager",), ("--no-enforce-eager",), ("--no-enable-log-requests",),
    ("--disable-log-stats",), ("--hf-token",), ("--hf-token", "x"),
    ("--allowed-media-domains", "a", "b"), ("--moe-backend", "MARLIN"), ("-O3",),
    ("--speculative-config", '{"method":"mtp","num_speculative_tokens":4}'),
    ("--speculative-config.method", "mtp"), ("--attention-backend", "triton-attn"),
    ("--dtype", "None"),
])
def test_what_this_vllm_takes(flags: tuple[Flag, ...], serve: tuple[str, ...]) -> None:
    assert list(problems(serve, flags)) == []


@pytest.mark.parametrize(("serve", "what"), [
    (("--max-model-lem", "1"), "there is no flag --max-model-lem"),
    (("--no-disable-log-stats",), "there is no flag --no-disable-log-stats"),
    (("--max-model-len", "lots"), "takes a number, not 'lots'"),
    (("--max-model-len",), "needs a value"),
    (("--max-model-len", "1", "2"), "takes one value, the recipe gives 2"),
    (("--enforce-eager", "true"), "takes no value"),
    (("--disable-log-stats=1",), "takes no value"),
    (("--moe-backend", "marlyn"), "does not know 'marlyn'"),
    (("--tool-call-parser", "gemma"), "does not know 'gemma'"),
    (("--speculative-config", "{method:mtp}"), "takes JSON"),
    (("--speculative-config", '{"metod":"mtp"}'), "has no key 'metod'"),
    (("--speculative-config", '{"method":"mtb"}'), "method does not know 'mtb'"),
    (("--speculative-config.metod", "mtp"), "has no key 'metod'"),
    (("--max-model-len.x", "1"), "takes no keys"),
    (("model", "--enforce-eager"), "stands before any flag"),
])
def test_what_it_refuses(flags: tuple[Flag, ...], serve: tuple[str, ...], what: str) -> None:
    problem = only(flags, *serve)
    assert what in problem.what
    assert problem.is_certain


def test_what_was_meant_is_suggested(flags: tuple[Flag, ...]) -> None:
    assert only(flags, "--max-model-lem", "1").next_step == 'perhaps you meant "--max-model-len"'
    assert only(flags, "--moe-backend", "marlyn").next_step == 'perhaps you meant "marlin"'
    assert only(flags, "--max-model-lem", "1").unknown == "--max-model-lem"


def test_a_value_that_a_plugin_may_add_is_uncertain(flags: tuple[Flag, ...]) -> None:
    assert not only(flags, "--quantization", "mine").is_certain


def test_words_are_grouped_by_flag() -> None:
    assert arguments(["--a_b", "1", "-2", "--c=d=e", "-O2", "--x.some_key", "v"]) == [
        Argument("--a-b", ("1", "-2")), Argument("--c", ("d=e",)),
        Argument("--optimization-level", ("2",)), Argument("--x.some_key", ("v",))]
