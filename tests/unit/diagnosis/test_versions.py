"""Versions are read from the lines in which vLLM says them, and from no others."""

from __future__ import annotations

import pytest

from builder.diagnosis.versions import versions_in


@pytest.mark.parametrize("line", [
    "Initializing a V1 LLM engine (v0.32.0) with config: model='/m'",
    "vLLM API server version 0.32.0",
    "INFO [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0"])
def test_reads_the_version_of_vllm(line: str) -> None:
    assert versions_in(["something else", line]) == {"vllm": "0.32.0"}


def test_other_versions_are_not_taken_for_vllms() -> None:
    assert versions_in(["transformers version 5.1"]) == {}


def test_reads_the_report_of_collect_env() -> None:
    lines = ["PyTorch version              : 2.11.0+cu130", "vLLM Version                 : 0.19.1",
             "[pip3] transformers==5.15.0", "[pip3] torch==2.9.1", "[conda] triton 3.5.1 py312"]
    assert versions_in(lines) == {"torch": "2.11.0+cu130", "vllm": "0.19.1",
                                  "transformers": "5.15.0", "triton": "3.5.1"}


@pytest.mark.parametrize(("line", "name", "version"), [
    ("INFO Initializing an LLM engine (v0.5.4) with config: model='x'", "vllm", "0.5.4"),
    ("PyTorch: 2.11.0+cu130", "torch", "2.11.0+cu130"), ("sglang: 0.5.17", "sglang", "0.5.17"),
    ("flashinfer_python: 0.6.15.post1", "flashinfer-python", "0.6.15.post1"),
    ("| NVIDIA-SMI 580.142     Driver Version: 580.142     CUDA Version: 13.0 |",
     "nvidia-driver", "580.142"),
    ("INFO [pynccl.py:111] vLLM is using nccl==2.27.5", "nccl", "2.27.5"),
    ("    Ray: 2.52.1", "ray", "2.52.1")])
def test_reads_what_other_programs_print(line: str, name: str, version: str) -> None:
    assert versions_in([line]) == {name: version}
