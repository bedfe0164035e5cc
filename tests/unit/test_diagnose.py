"""Each known issue fires on the line that it is known by, and stays quiet on a good boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.diagnose import diagnose, load_issues, versions_in
from builder.errors import ConfigError
from builder.record.check import Check, Status
from builder.smoke.levels import parse

ROOT = Path(__file__).parents[2]
ISSUES = load_issues(ROOT)
# A log of each issue, named by the codes that it must show, in their order. Lines that begin with
# ``@@`` are failed checks, as the scripts inside an image print them.
LOGS = sorted((ROOT / "tests" / "fixtures" / "known_issues").glob("F*.log"))
REAL = (ROOT / "tests" / "fixtures" / "known_issues" / "healthy.log").read_text().splitlines()
LINES = {
    "F1": "ValueError: The checkpoint you are trying to load has model type `gemma4_text` but "
          "Transformers does not recognize this architecture.",
    "F4": "ImportError: vllm/_C.abi3.so: undefined symbol: _ZN3c1013MessageLoggerC1ENS_14Source",
    "F6": "ImportError: libnuma.so.1: cannot open shared object file: No such file or directory",
    "F14": "KeyError: 'layers.0.mlp.down_proj.weight_scale'",
    "F15": "_pickle.PicklingError: Can't pickle <function launcher at 0x7f>: not found",
    "F19": "RuntimeError: [FP4 gemm Runner] Failed to run cutlass FP4 gemm on sm120/sm121",
    "F21": "  File \"modelopt.py\", line 1, in tie_weights\n    raise NotImplementedError",
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


# Lines as vLLM's own source and the reports of the field have them.
MORE = [
    ("F1", ("Value error, The checkpoint you are trying to load has model type `gemma4_text` "
            "but Transformers does not recognize this architecture. This could be because")),
    ("F15", "_pickle.PicklingError: Can't pickle <function launcher>"),
    ("F19", "Using 'VLLM_CUTLASS' NvFp4 MoE backend out of potential backends: ['MARLIN']."),
    ("F19", "Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend out of potential backends: []."),
    ("F21", 'ERROR   File "x.py", line 9, in tie_weights\nERROR     raise NotImplementedError'),
    ("F22", "Worker proc VllmWorker-0 died unexpectedly, shutting down executor."),
    ("F22", "WARNING [shutdown] MPClient: engine core exited unexpectedly; starting cleanup"),
    ("F23", "[26265.4] Memory cgroup out of memory: Killed process 11587 (python)"),
    ("F23", "ValueError: No available memory for the cache blocks. Try increasing"),
    ("F23", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 394.00 MiB."),
]
NEIGHBOURS = [
    "Using 'MARLIN' NvFp4 MoE backend out of potential backends: ['VLLM_CUTLASS', 'MARLIN'].",
    "Using NvFp4LinearBackend.FLASHINFER_CUTLASS for NVFP4 GEMM",
    "  File \"modelopt.py\", line 1, in tie_weights\n    self.weight = other.weight",
    "INFO used to prevent the kernel from running out of memory.",
    "ERROR Error with model: The model `no-such-model` does not exist.",
    "KeyError: 'layers.0.mlp.down_proj.weight'",
    ("W0424 AOTAutograd cache unable to serialize compiled graph: Can't pickle <function launcher "
     "at 0x7f1c60cb2440>: attribute lookup launcher on __main__ failed"),
    "INFO [backends.py:1105] Using cache directory: /var/cache/vllm for vLLM's torch.compile",
    "There is no module or parameter named 'layers.0.mlp.down_proj.weight' in Gemma4Model.",
    'INFO: 172.17.0.1:4 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
]
PROBES = [
    ("F16", "reasoning: asked, streamed", "'thought\\nSo.'; reasoning was asked for and is empty"),
    ("F24", "reasoning: asked, streamed", "'So.'; reasoning was asked for and is empty"),
    ("F17", "tools: single, streamed", "arguments of get_weather: invalid JSON (x): '{'"),
    ("F17", "tools: HTML in streamed arguments", "'<<' is doubled in the arguments of create_page"),
    ("F18", "tools: agentic", "'<|tool_call>'; tag '<|tool_call>' leaks into the content"),
    ("F22", "boot", 'no line for 1801 s in phase "compile", which may be silent for 1800 s'),
    ("F22", "healthy afterwards", "/health answers 503: the engine died: x EngineDead"),
    ("F22", "text: code", "''; Unanswered: timed out.; asked again: Unanswered: timed out."),
    ("F23", "boot", 'the server ended with status 137 (out of memory) in phase "weights"'),
    ("F23", "boot", "the server ended with status 137 (out of memory: it was killed, as"),
]


def codes(log: Path) -> list[str]:
    """Return the codes that a log of ``LOGS`` is named by."""
    return log.stem.split("-")[0].split("+")


def read(log: Path) -> tuple[list[str], list[Check]]:
    """Return the lines and the failed checks of a log."""
    lines = log.read_text().splitlines()
    return ([line for line in lines if not line.startswith("@@ ")],
            [check for line in lines if (check := parse(line))])


def test_every_issue_has_a_log_and_no_log_is_of_none() -> None:
    named = {code for log in LOGS for code in codes(log)}
    assert named == {issue.code for issue in ISSUES}
    for log in LOGS:
        assert sum(line.startswith("@@ ") for line in log.read_text().splitlines()) == len(
            read(log)[1]), log


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_each_log_is_claimed_by_its_issues_alone(log: Path) -> None:
    lines, checks = read(log)
    for before in ([], REAL[:5]):
        found = diagnose([*before, *lines], ISSUES, checks)
        assert [item.issue.code for item in found] == codes(log)
        assert all(not item.spared for item in found)


def test_the_log_of_a_real_healthy_run_shows_nothing() -> None:
    assert any("Application startup complete" in line for line in REAL)
    assert diagnose(REAL, ISSUES) == ()


@pytest.mark.parametrize("log", [log for log in LOGS if read(log)[1]], ids=lambda log: log.stem)
def test_a_check_that_passed_shows_no_issue(log: Path) -> None:
    lines, checks = read(log)
    good = [check.model_copy(update={"status": Status.PASS}) for check in checks]
    shown = {item.issue.code for item in diagnose(lines, ISSUES, good)}
    assert shown < set(codes(log))


@pytest.mark.parametrize(("code", "flags"), [
    ("F30", "{'model': '/m', 'enable_auto_tool_choice': True, 'tool_call_parser': 'hermes'}"),
    ("F24", "{'tool_call_parser': 'gemma4', 'model': '/m', 'reasoning_parser': 'gemma4'}")])
def test_the_launch_flags_tell_a_stale_template_from_a_missing_parser(code: str, flags: str
                                                                      ) -> None:
    check = Check(check="reasoning: asked", status=Status.FAIL,
                  detail="'No.'; reasoning was asked for and is empty")
    found = diagnose([f"INFO non-default args: {flags}"], ISSUES, [check])
    assert [item.issue.code for item in found] == [code]


@pytest.mark.parametrize(("code", "line"), MORE)
def test_fires_on_lines_of_the_field(code: str, line: str) -> None:
    found = diagnose([*HEALTHY, *line.splitlines()], ISSUES)
    assert [item.issue.code for item in found] == [code]


@pytest.mark.parametrize("line", NEIGHBOURS)
def test_quiet_on_neighbours(line: str) -> None:
    assert diagnose([*HEALTHY, *line.splitlines()], ISSUES) == ()


@pytest.mark.parametrize(("code", "name", "detail"), PROBES)
def test_fires_on_a_failed_probe_only(code: str, name: str, detail: str) -> None:
    failed = Check(check=name, status=Status.FAIL, detail=detail)
    good = failed.model_copy(update={"status": Status.PASS})
    assert [item.issue.code for item in diagnose(HEALTHY, ISSUES, [failed])] == [code]
    assert diagnose(HEALTHY, ISSUES, [good]) == ()


@pytest.mark.parametrize(("version", "claimed"), [
    ("0.22.1", False), ("0.23.1rc1.dev309", True), ("0.24.0+cu130", True), ("0.24.1", False)])
def test_a_version_outside_is_shown_and_not_claimed(version: str, claimed: bool) -> None:
    lines = [f"Initializing a V1 LLM engine (v{version}) with config", LINES["F21"]]
    found, = diagnose(lines, ISSUES, versions={"vllm": "0.23.0"})
    assert (not found.spared) is claimed
    assert ("not claimed" in str(found)) is not claimed


@pytest.mark.parametrize("line", [
    "Initializing a V1 LLM engine (v0.32.0) with config: model='/m'",
    "vLLM API server version 0.32.0",
    "INFO [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0"])
def test_reads_the_version(line: str) -> None:
    assert versions_in(["something else", line]) == {"vllm": "0.32.0"}
    assert versions_in(["transformers version 5.1"]) == {}


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


GOOD = ('[[issue]]\ncode = "F1"\npatterns = ["a"]\nexplanation = "x"\nremedy = "y"\n'
        'until = "z"\nlink = "https://x.example"\n')


@pytest.mark.parametrize(("old", "new", "said"), [
    ('["a"]', '["a", "(?i)b"]', "cannot be searched together"),
    ('["a"]', '["(?P<n>a)", "(?P<n>b)"]', "cannot be searched together"),
    ('["a"]', '[""]', "patterns"), ('"x"', '""', "explanation"),
    ('"https://x.example"', '"javascript:x"', "https://"), ("code", "\xff", "cannot be read"),
])
def test_a_file_that_would_claim_nonsense_is_refused(tmp_path: Path, old: str, new: str,
                                                     said: str) -> None:
    (tmp_path / "known-issues.toml").write_bytes(GOOD.encode())
    assert load_issues(tmp_path)
    (tmp_path / "known-issues.toml").write_bytes(GOOD.replace(old, new, 1).encode("latin-1"))
    with pytest.raises(ConfigError, match=said):
        load_issues(tmp_path)
