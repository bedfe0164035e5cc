"""The command line of a vLLM is read from its sources: flags, kinds, choices, keys of JSON."""

from __future__ import annotations

from pathlib import Path

import fake_vllm
import pytest

from builder.errors import LockError
from builder.recipes.server_flags import Flag, Kind, read_flags
from builder.recipes.wheel_sources import WheelSources


@pytest.fixture
def flags(tmp_path: Path) -> dict[str, Flag]:
    found = read_flags(WheelSources(fake_vllm.wheel(tmp_path)))
    return {name: flag for flag in found for name in flag.names}


@pytest.mark.parametrize(("name", "kind"), [
    ("--max-model-len", Kind.INT), ("--gpu-memory-utilization", Kind.FLOAT),
    ("--enforce-eager", Kind.BOOLEAN), ("--enable-log-requests", Kind.BOOLEAN),
    ("--enable-auto-tool-choice", Kind.BOOLEAN), ("--port", Kind.INT),
    ("--disable-log-stats", Kind.SWITCH), ("--headless", Kind.SWITCH),
    ("--speculative-config", Kind.JSON), ("--hf-token", Kind.TEXT),
    ("--optimization-level", Kind.INT), ("--dtype", Kind.TEXT),
])
def test_kinds(flags: dict[str, Flag], name: str, kind: Kind) -> None:
    assert flags[name].kind is kind


@pytest.mark.parametrize(("name", "choices", "is_open"), [
    ("--quantization", ("fp8", "modelopt"), True),  # any text, these are known
    ("--dtype", ("half", "float16"), False),
    ("--moe-backend", ("auto", "marlin", "half", "float16"), False),
    ("--attention-backend", ("FLASH_ATTN", "TRITON_ATTN"), True),
    ("--log-level", ("DEBUG", "INFO"), False),
    ("--gdn-backend", ("flashinfer", "triton"), False),
    ("--tool-call-parser", ("gemma4", "hermes"), False),  # from vLLM's register
    ("--reasoning-parser", ("gemma4",), False),
])
def test_choices(flags: dict[str, Flag], name: str, choices: tuple[str, ...],
                 is_open: bool) -> None:
    assert (flags[name].choices, flags[name].is_open) == (choices, is_open)


def test_short_names_lists_and_optional_values(flags: dict[str, Flag]) -> None:
    assert flags["-q"] is flags["--quantization"]
    assert flags["--allowed-media-domains"].takes_many
    assert flags["--hf-token"].is_optional
    assert "model_tag" not in flags


def test_the_keys_of_a_configuration_class(flags: dict[str, Flag]) -> None:
    keys = flags["--speculative-config"].keys
    assert keys["method"] == ("mtp", "eagle3")
    assert keys["num_speculative_tokens"] == ()


def test_sources_of_another_form_are_refused_and_not_taken_for_no_flags(tmp_path: Path) -> None:
    sources = WheelSources(fake_vllm.wheel(tmp_path, engine__arg_utils="x = 1\n"))
    with pytest.raises(LockError, match="cannot be read from its sources"):
        read_flags(sources)
