"""The log against its recipe: each expectation fires on the line it is for and is quiet beside it.

The lines are those of vLLM 0.19 to 0.32, on CUDA and on the CPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.recipes.load import load_recipe, recipe_names
from builder.recipes.log import LogExpectation, LogFigure
from builder.record.check import Check, Status
from builder.smoke.log_lines import figure_check, log_checks

ROOT = Path(__file__).parents[3]
NAMES = recipe_names(ROOT)
MARLIN = ("INFO [nvfp4.py:181] Using 'MARLIN' NvFp4 MoE backend out of potential backends: "
          "['FLASHINFER_TRTLLM', 'FLASHINFER_CUTLASS', 'VLLM_CUTLASS', 'MARLIN'].")
NVFP4 = [
    "INFO Using NvFp4LinearBackend.FLASHINFER_CUTLASS for NVFP4 GEMM",
    MARLIN,
    ("INFO Gemma4 model has heterogeneous head dimensions (head_dim=256, global_head_dim=512). "
     "Forcing TRITON_ATTN backend to prevent mixed-backend numerical divergence."),
    "INFO Model loading took 15.76 GiB memory and 84.120113 seconds",
    "INFO Available KV cache memory: 81.8 GiB",
    "INFO GPU KV cache size: 714,768 tokens",
    "INFO Maximum concurrency for 131,072 tokens per request: 38.40x",
    "INFO:     Application startup complete.",
]
CPU = [
    ("(APIServer pid=1) INFO 11-21 08:28:14 [model.py:733] Resolved architecture: "
     "Gemma4ForConditionalGeneration"),
    ("(EngineCore pid=28) INFO 11-21 08:28:52 [kv_cache_utils.py:2327] CPU KV cache size: "
     "671,088 tokens, Maximum concurrency for 2,048 tokens per request: 327.68x"),
    "INFO:     Application startup complete.",
]


def failed(name: str, lines: list[str], *, is_cuda: bool = True) -> list[Check]:
    recipe = load_recipe(ROOT, name)
    return [check for check in log_checks(recipe.log, lines, is_cuda=is_cuda)
            if check.status is Status.FAIL]


def test_quiet_on_the_published_log_and_on_the_real_one_of_a_cpu() -> None:
    assert failed("gemma4-26b-a4b-nvfp4", NVFP4) == []
    assert failed("tiny-gemma4", CPU, is_cuda=False) == []


def test_quiet_on_the_spellings_of_newer_releases() -> None:
    renamed = [line.replace("NvFp4LinearBackend.FLASHINFER_CUTLASS",
                            "FlashInferCutlassNvFp4LinearKernel")
               .replace("Forcing TRITON_ATTN", "FA4 not available, forcing TRITON_ATTN")
               .replace("GiB memory and", "GiB and") for line in NVFP4]
    assert failed("gemma4-26b-a4b-nvfp4", renamed) == []


@pytest.mark.parametrize("backend", ["FLASHINFER_CUTLASS", "VLLM_CUTLASS", "CUTLASS"])
def test_every_spelling_of_the_cutlass_moe_backend_is_caught(backend: str) -> None:
    lines = [line.replace("Using 'MARLIN'", f"Using '{backend}'") for line in NVFP4]
    assert {check.check.split()[1] for check in failed("gemma4-26b-a4b-nvfp4", lines)} == {
        "shows", "lacks"}


def test_the_old_wording_of_the_cutlass_path_is_caught() -> None:
    found, = failed("gemma4-26b-a4b-nvfp4", [*NVFP4, "INFO Using CUTLASS_FP4 for MoE"])
    assert found.detail.endswith("Using CUTLASS_FP4 for MoE")


@pytest.mark.parametrize(("line", "changed", "check"), [
    ("Model loading took 15.76", "Model loading took 46.94", "weights"),
    ("Model loading took 15.76", "Model loading took 0.76", "weights"),
    ("request: 38.40x", "request: 20.01x", "concurrency at full length"),
    ("INFO Model loading", "INFO Model", "weights"),
])
def test_a_figure_out_of_bounds_or_not_stated_fails_by_name(line: str, changed: str,
                                                            check: str) -> None:
    lines = [one.replace(line, changed) for one in NVFP4]
    found, = failed("gemma4-26b-a4b-nvfp4", lines)
    assert found.check == f"log figure: {check}"


def test_the_detail_holds_figure_bounds_and_reason() -> None:
    figure = LogFigure(name="x", pattern=r"took (?P<value>\S+) GiB", unit="GiB", at_least=1,
                       at_most=2, why="it was so")
    said = figure_check(figure, ["took 1,234.5 GiB"])
    assert said.status is Status.FAIL
    assert said.detail == "1,234.5 GiB, expected at least 1 and at most 2: it was so"
    assert "no line states it" in figure_check(figure, ["took many GiB"]).detail


def test_every_worker_must_hold() -> None:
    figure = LogFigure(name="x", pattern=r"took (?P<value>[\d.]+)", unit="GiB", at_most=2, why="y")
    assert figure_check(figure, ["took 1.5", "took 1.6"]).status is Status.PASS
    assert figure_check(figure, ["took 1.5", "took 2.6"]).status is Status.FAIL


def test_what_belongs_to_the_other_backend_is_not_asked() -> None:
    expected = load_recipe(ROOT, "gemma4-31b-nvfp4").log
    assert [check.check for check in log_checks(expected, [], is_cuda=False)] == [
        "log shows 'Application startup complete'"]


@pytest.mark.parametrize("name", NAMES)
def test_what_was_measured_lies_within_the_bounds(name: str) -> None:
    recipe = load_recipe(ROOT, name)
    figures = {figure.name: figure for figure in recipe.log.figure}
    for memory in recipe.memory:
        for value, figure in ((memory.weights_gib, "weights"),
                              (memory.kv_cache_tokens, "KV cache")):
            if value is not None and figure in figures:
                low, high = figures[figure].bounds
                assert low <= value <= high


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("tiny-")])
def test_every_recipe_of_a_real_model_reads_the_memory_out_of_the_log(name: str) -> None:
    names = {figure.name for figure in load_recipe(ROOT, name).log.figure}
    assert {"concurrency at full length", "weights"} <= names


@pytest.mark.parametrize(("figure", "words"), [
    ({"pattern": "took ([0-9]+)", "at_least": 1}, "no group for the figure"),
    ({"pattern": "(?P<value>.)"}, "checks nothing"),
    ({"pattern": "(?P<value>.)", "at_least": 2, "at_most": 1}, "no figure can hold"),
    ({"pattern": "(", "at_least": 2}, "not a regular expression")])
def test_a_figure_that_cannot_be_checked_is_refused(figure: dict[str, object], words: str) -> None:
    raw = {"name": "x", "unit": "GiB", "why": "y", **figure}
    with pytest.raises(ValueError, match=words):
        LogExpectation.model_validate({"figure": [raw]})
