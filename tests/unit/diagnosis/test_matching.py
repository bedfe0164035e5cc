"""Each known issue fires on the line that it is known by, and stays quiet on a good boot."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli
from server_logs import HEALTHY

from builder.diagnosis.catalogue import load
from builder.diagnosis.log_file import read_log
from builder.diagnosis.matching import FAILS, diagnose, harmless
from builder.diagnosis.models import Catalogue
from builder.diagnosis.versions import versions_in
from builder.record.check import Check, Status
from builder.smoke.levels import parse

FIXTURES = Path(__file__).parents[2] / "fixtures" / "known_issues"
ISSUES = load()
# A log of each issue, named by the issues that it must show, in their order. Lines that begin with
# ``@@`` are failed checks, as the scripts inside an image print them.
LOGS = sorted(path for path in FIXTURES.glob("*.log") if path.stem != "healthy")
FAILURES = [
    entry for name in ("field", "upstream", "tracker", "blind")
    for entry in tomli.loads((FIXTURES.parent / f"{name}_failures.toml").read_text())["failure"]]
FIELD = [entry for entry in FAILURES if "log" in entry]
POSTED = tomli.loads((FIXTURES.parent / "healthy_excerpts.toml").read_text())["excerpt"]
REAL = (FIXTURES / "healthy.log").read_text().splitlines()
# A healthy boot up to where it serves: what a running server prints of a bad request is no failure.
SERVES = next(n for n, line in enumerate(REAL) if "Application startup complete" in line)
BOOT = [line for line in REAL[:SERVES] if not versions_in([line])]
LINES = {
    "gemma4-unsupported":
        "ValueError: The checkpoint you are trying to load has model type `gemma4_text` but "
          "Transformers does not recognize this architecture.",
    "undefined-symbol":
        "ImportError: vllm/_C.abi3.so: undefined symbol: _ZN3c1013MessageLoggerC1ENS_14Source",
    "missing-library":
        "ImportError: libnuma.so.1: cannot open shared object file: No such file or directory",
    "fp8-scales-not-mapped": "KeyError: 'layers.0.mlp.down_proj.weight_scale'",
    "compile-cache-not-picklable":
        "_pickle.PicklingError: Can't pickle <function launcher at 0x7f>: not found",
    "cutlass-fp4-moe":
        "RuntimeError: [FP4 gemm Runner] Failed to run cutlass FP4 gemm on sm120/sm121",
    "nvfp4-tie-weights":
        "  File \"modelopt.py\", line 1, in tie_weights\n    raise NotImplementedError",
    "engine-dead": "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    "not-enough-memory":
        "To serve at least one request, the estimated maximum model length is 65120.",
    "gemma4-config":
        "transformers.AmbiguousGlobalPerLayerAttributeError: head_dim differs between layers",
    "toolchain-missing":
        "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
}


@pytest.mark.parametrize(("code", "line"), LINES.items())
def test_fires(code: str, line: str) -> None:
    assert [found.issue.name for found in diagnose([*HEALTHY, line], ISSUES)] == [code]


# Lines as vLLM's own source and the reports of the field have them.
MORE = [
    ("gemma4-unsupported",
     ("Value error, The checkpoint you are trying to load has model type `gemma4_text` "
            "but Transformers does not recognize this architecture. This could be because")),
    ("compile-cache-not-picklable", "_pickle.PicklingError: Can't pickle <function launcher>"),
    ("cutlass-fp4-moe",
     "Using 'VLLM_CUTLASS' NvFp4 MoE backend out of potential backends: ['MARLIN']."),
    ("cutlass-fp4-moe",
     "Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend out of potential backends: []."),
    ("nvfp4-tie-weights",
     'ERROR   File "x.py", line 9, in tie_weights\nERROR     raise NotImplementedError'),
    ("engine-dead", "Worker proc VllmWorker-0 died unexpectedly, shutting down executor."),
    ("engine-dead",
     "WARNING [shutdown] MPClient: engine core exited unexpectedly; starting cleanup"),
    ("not-enough-memory", "[26265.4] Memory cgroup out of memory: Killed process 11587 (python)"),
    ("not-enough-memory", "ValueError: No available memory for the cache blocks. Try increasing"),
    ("not-enough-memory",
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 394.00 MiB."),
]
NEIGHBOURS = [
    "INFO Model architectures ['Gemma4ForCausalLM'] are supported",
    "INFO This kernel only supports sm120a and sm121a.",
    "INFO bind on address ('0.0.0.0', 8000)",
    "-- Not building FlashMLA as no compatible archs were found",
    "CUDA_ERROR_INVALID_VALUE",
    "Using 'MARLIN' NvFp4 MoE backend out of potential backends: ['VLLM_CUTLASS', 'MARLIN'].",
    "Using NvFp4LinearBackend.FLASHINFER_CUTLASS for NVFP4 GEMM",
    "  File \"modelopt.py\", line 1, in tie_weights\n    self.weight = other.weight",
    "INFO used to prevent the kernel from running out of memory.",
    "ERROR Error with model: The model `no-such-model` does not exist.",
    ("W0424 AOTAutograd cache unable to serialize compiled graph: Can't pickle <function launcher "
     "at 0x7f1c60cb2440>: attribute lookup launcher on __main__ failed"),
    "INFO [backends.py:1105] Using cache directory: /var/cache/vllm for vLLM's torch.compile",
    'INFO: 172.17.0.1:4 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
]
PROBES = [
    ("reasoning-delimiters-dropped",
     "reasoning: asked, streamed", "'thought\\nSo.'; reasoning was asked for and is empty"),
    ("chat-template-stale",
     "reasoning: asked, streamed", "'So.'; reasoning was asked for and is empty"),
    ("tool-arguments-malformed",
     "tools: single, streamed", "arguments of get_weather: invalid JSON (x): '{'"),
    ("tool-arguments-malformed",
     "tools: HTML in streamed arguments", "'<<' is doubled in the arguments of create_page"),
    ("tool-tags-in-content",
     "tools: agentic", "'<|tool_call>'; tag '<|tool_call>' leaks into the content"),
    ("engine-dead",
     "boot", 'no line for 1801 s in phase "compile", which may be silent for 1800 s'),
    ("engine-dead", "healthy afterwards", "/health answers 503: the engine died: x EngineDead"),
    ("engine-dead",
     "text: code", "''; Unanswered: timed out.; asked again: Unanswered: timed out."),
    ("not-enough-memory",
     "boot", 'the server ended with status 137 (out of memory) in phase "weights"'),
    ("not-enough-memory",
     "boot", "the server ended with status 137 (out of memory: it was killed, as"),
]


def codes(log: Path) -> list[str]:
    """Return the issues that a log of ``LOGS`` is named by."""
    return log.name.split(".")[0].split("+")


def read(log: Path) -> tuple[list[str], list[Check]]:
    """Return the lines and the failed checks of a log."""
    lines = log.read_text().splitlines()
    return ([line for line in lines if not line.startswith("@@ ")],
            [check for line in lines if (check := parse(line))])


def test_every_issue_has_a_log_and_no_log_is_of_none() -> None:
    named = {code for log in LOGS for code in codes(log)}
    named |= {entry["named"] for entry in FIELD if entry["named"]}
    assert named == {issue.name for issue in ISSUES.issues}
    known = named | {entry.name for entry in ISSUES.reported}
    assert {entry["named"] for entry in FAILURES} - {""} <= known
    assert len({entry["id"] for entry in FAILURES}) == len(FAILURES)
    for log in LOGS:
        assert sum(line.startswith("@@ ") for line in log.read_text().splitlines()) == len(
            read(log)[1]), log


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_each_log_is_claimed_by_its_issues_alone(log: Path) -> None:
    lines, checks = read(log)
    for before in ([], REAL[:5]):
        found = diagnose([*before, *lines], ISSUES, checks)
        assert [item.issue.name for item in found] == codes(log)
        assert all(item.claimed for item in found)


def test_the_log_of_a_real_healthy_run_shows_nothing() -> None:
    assert any("Application startup complete" in line for line in REAL)
    assert diagnose(REAL, ISSUES) == ()
    logs = sorted(FIXTURES.with_name("healthy_logs").glob("*.log*"))
    assert logs
    for log in logs:
        assert diagnose(read_log(str(log)).lines, ISSUES) == (), log


@pytest.mark.parametrize("entry", POSTED, ids=lambda entry: entry["id"])
def test_nothing_is_claimed_of_what_owners_of_healthy_servers_posted(entry: dict[str, str]
                                                                     ) -> None:
    for before in ([], BOOT):
        shown = diagnose([*before, *entry["log"].splitlines()], ISSUES)
        assert [item.issue.name for item in shown if item.claimed] == []


@pytest.mark.parametrize("line", [
    "WARNING CUDAGraphMode.FULL is not supported with X backend; setting cudagraph_mode=PIECEWISE",
    "WARNING PhiXForCausalLM has no vLLM implementation, falling back to Transformers",
    "WARNING FlashInfer top-p/top-k sampling unavailable: no nvcc; falling back. Set X=0.",
    "DEBUG [hf.py:1] Failed to load AutoProcessor chat template for google/gemma-4-31B-it",
    "NCCL WARN NET/IB : mlx5_0:1 Got async event : port active"])
def test_quiet_on_warnings_that_vllm_prints_on_a_good_start(line: str) -> None:
    assert diagnose([line], ISSUES) == ()


@pytest.mark.parametrize(("line", "name"), [
    ('exec: "nvidia-container-runtime": executable file not found in $PATH',
     "docker-runtime-unknown"),
    ('err: exec: "docker-credential-pass": executable file not found in $PATH',
     "docker-credential-helper-missing"),
    ('exec: "vllm": executable file not found in $PATH: unknown', "command-not-in-image")])
def test_a_program_that_the_host_lacks_is_no_fault_of_the_image(line: str, name: str) -> None:
    assert [item.issue.name for item in diagnose([line], ISSUES)] == [name]


def test_the_traceback_of_a_bad_request_is_named_only_where_the_server_did_not_start() -> None:
    lines = ['  File "/x/site-packages/transformers/tokenization_utils_base.py", line 3, in apply',
             "ValueError: Cannot apply chat template to an empty conversation."]
    assert [item.issue.name for item in diagnose(lines, ISSUES)] == ["transformers-failed"]
    assert diagnose(["INFO:     Application startup complete.", *lines], ISSUES) == ()


@pytest.mark.parametrize("log", [log for log in LOGS if read(log)[1]], ids=lambda log: log.stem)
def test_a_check_that_passed_shows_no_issue(log: Path) -> None:
    lines, checks = read(log)
    good = [check.model_copy(update={"status": Status.PASS}) for check in checks]
    shown = {item.issue.name for item in diagnose(lines, ISSUES, good)}
    assert shown < set(codes(log))


@pytest.mark.parametrize(("code", "flags"), [
    ("gemma4-parsers-missing",
     "{'model': '/m', 'enable_auto_tool_choice': True, 'tool_call_parser': 'hermes'}"),
    ("chat-template-stale",
     "{'tool_call_parser': 'gemma4', 'model': '/m', 'reasoning_parser': 'gemma4'}")])
def test_the_launch_flags_tell_a_stale_template_from_a_missing_parser(code: str, flags: str
                                                                      ) -> None:
    check = Check(check="reasoning: asked", status=Status.FAIL,
                  detail="'No.'; reasoning was asked for and is empty")
    found = diagnose([f"INFO non-default args: {flags}"], ISSUES, [check])
    assert [item.issue.name for item in found] == [code]


@pytest.mark.parametrize(("code", "line"), MORE)
def test_fires_on_lines_of_the_field(code: str, line: str) -> None:
    found = diagnose([*HEALTHY, *line.splitlines()], ISSUES)
    assert [item.issue.name for item in found] == [code]


@pytest.mark.parametrize("line", NEIGHBOURS)
def test_quiet_on_neighbours(line: str) -> None:
    assert diagnose([*HEALTHY, *line.splitlines()], ISSUES) == ()


@pytest.mark.parametrize(("code", "name", "detail"), PROBES)
def test_fires_on_a_failed_probe_only(code: str, name: str, detail: str) -> None:
    failed = Check(check=name, status=Status.FAIL, detail=detail)
    good = failed.model_copy(update={"status": Status.PASS})
    assert [item.issue.name for item in diagnose(HEALTHY, ISSUES, [failed])] == [code]
    assert diagnose(HEALTHY, ISSUES, [good]) == ()


@pytest.mark.parametrize(("version", "claimed"), [
    ("0.22.1", False), ("0.23.1rc1.dev309", True), ("0.24.0+cu130", True), ("0.24.1", False)])
def test_a_version_outside_is_shown_and_not_claimed(version: str, claimed: bool) -> None:
    lines = [f"Initializing a V1 LLM engine (v{version}) with config", LINES["nvfp4-tie-weights"]]
    found, = diagnose(lines, ISSUES, versions={"vllm": "0.23.0"})
    assert found.claimed is claimed
    assert ("not claimed" in str(found)) is not claimed


def test_quiet_on_a_good_boot() -> None:
    assert diagnose(HEALTHY, ISSUES) == ()


def issue(name: str, **fields: object) -> dict[str, object]:
    return {"name": name, "cause": "x", "remedy": "y", "until": "z",
            "links": ["https://x.example"], **fields}


HINT_LINE = "(EngineCore pid=9) INFO [nvfp4.py:285] Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend"
START = "(APIServer pid=1) INFO [utils.py:233] non-default args: {'model': '/m'}"
UP = "(APIServer pid=1) INFO:     Application startup complete."


def names(*lines: str) -> list[str]:
    """Return what is claimed of lines."""
    return [item.issue.name for item in diagnose(lines, ISSUES) if item.claimed]


@pytest.mark.parametrize("line", ["\u2003" * 4, "(aaaa", "    ", " \u2003 ", "1" * 9])
def test_a_log_of_a_line_that_repeats_is_searched_in_steps_that_grow_with_it(line: str) -> None:
    """A megabyte would take minutes if each line were tried over all that follow."""
    log = ["INFO non-default args: {}", *(line + " " * (n % 7) + "\u2003" * (n % 5) + "(" * (n % 3)
                                          for n in range(100_000))]
    assert not diagnose(log, ISSUES)


def test_lines_that_differ_in_a_word_are_all_searched_for_a_failure() -> None:
    begin = "INFO non-default args: {}"
    words = [f"({''.join(chr(97 + int(digit)) for digit in str(n))}" for n in range(100_000)]
    assert not FAILS.search("\n".join([begin, *words]))
    assert FAILS.search('(EngineCore_DP0 pid=1)   File "/x.py", line 1')
    assert FAILS.search('x\n\t File "/x.py", line 1')
    assert not FAILS.search('(x\n)\n\n File: "y')


def test_a_hint_in_a_start_that_went_well_is_no_failure() -> None:
    assert names(START, HINT_LINE, UP) == []
    assert names(START, HINT_LINE) == []  # it compiles for a while, or the machine froze
    assert names(HINT_LINE) == ["cutlass-fp4-moe"]  # what an owner posts is about a failure
    assert names(START, HINT_LINE, "ERROR something else") == ["cutlass-fp4-moe"]
    assert names(START, HINT_LINE, UP, "ERROR CUDA out of memory") == [
        "not-enough-memory", "cutlass-fp4-moe"]
    garbage = Check(check="text: capital of France", status=Status.FAIL, detail="'!!!!!!!!'")
    assert "cutlass-fp4-moe" in [item.issue.name for item in diagnose(
        [START, HINT_LINE, UP], ISSUES, [garbage])]


def test_a_hint_after_the_start_counts() -> None:
    assert names(START, UP, HINT_LINE) == ["cutlass-fp4-moe"]


@pytest.mark.parametrize("line", [
    "INFO [utils.py:328] non-default args: {'chat_template': \"{{ raise_exception('x') }}\"}",
    "WARNING [api_server.py:1712] Using supplied chat template: {{ raise_exception('x') }}",
    "WARNING python3 -m vllm.entrypoints.api_server --chat-template {{ raise_exception('x') }}",
    "ERROR [dump_input.py:69] Dumping input data for V1 LLM engine with config: raise_exception(",
])
def test_the_settings_of_a_server_are_no_failure(line: str) -> None:
    assert names(line) == []


def test_what_a_server_prints_that_was_asked_to_stop_is_no_failure() -> None:
    asked = "(APIServer pid=1) INFO [launcher.py:100] [shutdown] API server: shutdown triggered"
    ends = ["ERROR [async_llm.py:704] AsyncLLM output_handler failed.", "EngineDeadError"]
    assert names(START, UP, asked, *ends) == []
    assert names(START, UP, *ends) == ["engine-dead"]
    assert names(START, UP, asked, *ends, START, *ends) == ["engine-dead"]  # one log, two starts


def test_plug_ins_that_nccl_does_not_find_are_no_failure() -> None:
    lines = ("9:9 NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file",
             "spark:9:9 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.",
             "spark:9:9 [0] NCCL INFO TUNER/Plugin: Could not find: libnccl-tuner.so")
    assert names(*lines) == []
    assert names("ImportError: libnccl.so.2: cannot open shared object file") == ["missing-library"]


def test_a_family_is_named_only_for_lines_that_nothing_else_explains() -> None:
    catalogue = Catalogue.model_validate({"issue": [
        issue("cuda-error", patterns=["CUDA error: .*"], general=True),
        issue("no-code", patterns=["no kernel image"], affects={"vllm": "<0.12"})]})
    lines = ["CUDA error: no kernel image is available", "later"]
    other = "CUDA error: an illegal memory access was encountered"
    def named(lines: list[str], **versions: str) -> list[str]:
        return [item.issue.name for item in diagnose(lines, catalogue, versions=versions)
                if item.claimed]
    assert named(lines) == ["no-code"]
    assert named([other]) == ["cuda-error"]
    assert named([other, lines[0]]) == ["no-code", "cuda-error"]
    assert named(lines, vllm="0.20") == ["cuda-error"]


def test_an_issue_is_named_once_with_its_first_line() -> None:
    line = LINES["fp8-scales-not-mapped"]
    assert [item.line for item in diagnose([line, line + " again"], ISSUES)] == [line]


def test_a_harmless_line_is_never_the_cause() -> None:
    """A line that is known as harmless is not searched, whatever a pattern would say of it."""
    catalogue = Catalogue.model_validate({
        "issue": [issue("any", patterns=["Could not load"])],
        "harmless": [{"pattern": "optional plugin", "why": "x", "links": ["https://x.example"]}]})
    line = "WARNING Could not load the optional plugin"
    assert harmless(line, catalogue.harmless) is catalogue.harmless[0]
    assert diagnose([line], catalogue) == ()
    assert len(diagnose(["WARNING Could not load the plugin"], catalogue)) == 1


@pytest.mark.parametrize("entry", FIELD, ids=lambda entry: entry["id"])
def test_lines_of_the_field_are_named_rightly_or_not_at_all(entry: dict[str, str]) -> None:
    for before in ([], BOOT):
        claimed = [item.issue.name for item in diagnose(
            [*before, *entry["log"].splitlines()], ISSUES) if item.claimed]
        assert claimed[:1] == [entry["named"]][:len(entry["named"])]


def test_a_driver_that_lacks_a_symbol_is_no_fault_of_torch() -> None:
    for symbol, name in (("cuMemcpyBatchAsync", "driver-too-old"),
                         ("ncclCommResume", "nccl-library-too-old")):
        line = f"ImportError: libtorch_cuda.so: undefined symbol: {symbol}"
        assert [item.issue.name for item in diagnose([line], ISSUES)] == [name]


def test_the_cause_stands_before_what_follows_from_it() -> None:
    lines = ["ERROR EngineDeadError: EngineCore encountered an issue.",
             "AttributeError: '_OpNamespace' '_C' object has no attribute 'x'",
             "ImportError: _C.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE"]
    assert [item.issue.name for item in diagnose(lines, ISSUES)] == [
        "undefined-symbol", "engine-dead", "extension-not-loaded"]


def test_what_follows_from_a_named_cause_guesses_no_causes() -> None:
    echo = "ERROR EngineDeadError: EngineCore encountered an issue."
    alone, = diagnose([echo], ISSUES)
    assert alone.issue.or_else
    assert "docker logs" in alone.issue.remedy
    cause, behind = diagnose([echo, "torch.OutOfMemoryError: CUDA out of memory."], ISSUES)
    assert (cause.issue.name, behind.issue.name) == ("not-enough-memory", "engine-dead")
    assert behind.issue.or_else == ()
    assert "see not-enough-memory" in str(behind)


def test_a_line_that_comes_a_thousand_times_hides_nothing() -> None:
    noise = [f'INFO: 172.17.0.1:{n} - "GET /health HTTP/1.1" 200 OK' for n in range(1000)]
    error = "ERROR CUDA out of memory"
    assert [item.line for item in diagnose([*noise, error, *noise], ISSUES)] == [error]
