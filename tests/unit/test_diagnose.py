"""Each known issue fires on the line that it is known by, and stays quiet on a good boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.diagnose import diagnose, load_issues
from builder.errors import ConfigError

ROOT = Path(__file__).parents[2]
ISSUES = load_issues(ROOT)
LINES = {
    "F1": "ValueError: The checkpoint you are trying to load has model type `gemma4_text` but "
          "Transformers does not recognize this architecture.",
    "F4": "ImportError: vllm/_C.abi3.so: undefined symbol: _ZN3c1013MessageLoggerC1ENS_14Source",
    "F6": "ImportError: libnuma.so.1: cannot open shared object file: No such file or directory",
    "F14": "KeyError: 'layers.0.mlp.down_proj.weight_scale'",
    "F15": "_pickle.PicklingError: Can't pickle <function launcher at 0x7f>: not found",
    "F19": "RuntimeError: [FP4 gemm Runner] Failed to run cutlass FP4 gemm on sm120/sm121",
    "F21": "  File linear.py, in tie_weights raise NotImplementedError",
    "F22": "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    "F23": "To serve at least one request, the estimated maximum model length is 65120.",
    "F29": "transformers.AmbiguousGlobalPerLayerAttributeError: head_dim differs between layers",
    "F27": "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
}
HEALTHY = """INFO Resolved architecture: Gemma4ForCausalLM
INFO Using max model len 2048
INFO Initializing a V1 LLM engine (v0.32.0) with config
INFO Starting to load model /tiny-gemma4...
INFO Loading weights took 0.02 seconds
INFO GPU KV cache size: 98,304 tokens
INFO Using 'MARLIN' NvFp4 MoE backend
INFO Starting vLLM server on http://0.0.0.0:8000
INFO: Application startup complete.
WARNING libcuda.so.1: cannot open shared object file: No such file or directory""".splitlines()


@pytest.mark.parametrize(("code", "line"), LINES.items())
def test_fires(code: str, line: str) -> None:
    assert [found.issue.code for found in diagnose([*HEALTHY, line], ISSUES)] == [code]


def test_every_issue_has_a_line_here() -> None:
    assert {issue.code for issue in ISSUES} == set(LINES)


def test_quiet_on_a_good_boot() -> None:
    assert diagnose(HEALTHY, ISSUES) == ()


def test_an_issue_is_named_once_with_its_first_line() -> None:
    found = diagnose([LINES["F14"], LINES["F14"] + " again"], ISSUES)
    assert [item.line for item in found] == [LINES["F14"]]


def test_a_bad_pattern_is_an_error_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "known-issues.toml").write_text(
        '[[issue]]\ncode = "F1"\npatterns = ["("]\nexplanation = ""\nremedy = ""\nlink = ""\n')
    with pytest.raises(ConfigError, match="not a regular expression"):
        load_issues(tmp_path)
