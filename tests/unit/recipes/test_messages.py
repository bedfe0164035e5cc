"""A pattern is compared with the messages of the sources: gaps, alternatives, other versions."""

from __future__ import annotations

import ast
from pathlib import Path

import fake_vllm
import pytest

from builder.recipes.messages import GAP, agrees, alternatives, can_show, messages
from builder.recipes.wheel_sources import WheelSources


@pytest.mark.parametrize(("pattern", "message"), [
    ("Using 'MARLIN' NvFp4 MoE backend", "Using '%s' NvFp4 MoE backend out of %s"),
    ("[Ff]orcing TRITON_ATTN backend", "no FA4, forcing TRITON_ATTN backend."),
    ("KV cache size: (?P<value>[\\d,]+) tokens", "GPU KV cache size: %s tokens"),
    ("Using (A|FlashKernel) for GEMM", "Using %s for GEMM"),
    ("startup complete$", "Application startup complete"),
    ("took [\\d.]+ GiB", "Model loading took %s GiB memory"),
    ("rank .* is (up|down)", "rank %d is up"),
    ("(loaded )+weights", "loaded loaded weights"),
    ("\\w+ cache \\S+ ready", "prefix cache %s ready"),
    ("up", "server up"),  # shorter than the least that is asked for
])
def test_a_message_that_can_match(pattern: str, message: str) -> None:
    assert agrees(pattern, message.replace("%s", GAP).replace("%d", GAP))


@pytest.mark.parametrize(("pattern", "message"), [
    ("Using 'MARLIN' NvFp4 MoE backend", "Using %s quantization"),
    ("[Ff]orcing TRITON_ATTN backend", "Forcing FLASH_ATTN backend"),
    ("KV cache size: [\\d,]+ tokens", "KV cache size: many tokens"),
    ("startup complete", "%s"),  # a gap may hold anything, and proves nothing
    ("took [\\d.]+ GiB", "Model loading took %s seconds"),
    ("[^a]ttention backend", "attention backend"),
])
def test_a_message_that_cannot(pattern: str, message: str) -> None:
    assert not agrees(pattern, message.replace("%s", GAP))


def test_messages_are_joined_and_have_gaps() -> None:
    tree = ast.parse('log("a %s b " "c")\nlog(f"{x} took {y:.2f} s")\nlog("{} and {z}")')
    assert set(messages(tree)) == {f"a {GAP} b c", f"{GAP} took {GAP} s", f"{GAP} and {GAP}"}


def test_alternatives() -> None:
    assert alternatives("(ab|cd) e\\d+f") == [("ab e", "f"), ("cd e", "f")]
    assert alternatives("^plain$") == [("plain",)]


@pytest.mark.parametrize(("pattern", "expected"), [
    ("Using MARLIN MoE backend", True),
    ("Using MARLYN MoE backend", False),  # the gap's value is no word of these sources
    ("KV cache size: (?P<value>[\\d,]+) tokens", True),
    ("[Ff]orcing TRITON_ATTN backend", True),  # from two literals
    ("KV cache holds [\\d,]+ tokens", False),
])
def test_sources_are_searched(tmp_path: Path, pattern: str, expected: bool) -> None:
    assert can_show(pattern, [WheelSources(fake_vllm.wheel(tmp_path))]) is expected


def test_another_version_without_the_message(tmp_path: Path) -> None:
    sources = WheelSources(fake_vllm.wheel(
        tmp_path, worker='log("GPU cache blocks: %d")\nMARLIN = "KV size tokens"\n'))
    assert not can_show("KV cache size: (?P<value>[\\d,]+) tokens", [sources])
    beside = WheelSources(fake_vllm.wheel(tmp_path, "uvicorn-1-py3-none-any.whl"))
    assert can_show("KV cache size: (?P<value>[\\d,]+) tokens", [sources, beside])
