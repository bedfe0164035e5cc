"""A boot told by its log: healthy, slow, hung, dead; the phases of a compiling server."""

from __future__ import annotations

import pytest
from server_logs import HEALTHY

from builder.smoke.readiness import PHASES, Boot

# What vLLM 0.20 writes on a GPU, with the second at which each line comes.
COMPILING = [
    (0, "INFO Resolved architecture: Gemma4ForConditionalGeneration"),
    (10, "(EngineCore pid=9) INFO Initializing a V1 LLM engine (v0.20.2) with config: model='x'"),
    (20, "INFO [gpu_model_runner.py:4700] Starting to load model google/gemma-4-31B-it..."),
    (100, "INFO [default_loader.py:384] Loading weights took 78.11 seconds"),
    (104, "INFO [gpu_model_runner.py:4879] Model loading took 30.2 GiB memory and 84.1 seconds"),
    (125, "INFO Using cache directory: /c/torch_compile_cache/ab for vLLM's torch.compile"),
    (126, "INFO [backends.py:1129] Dynamo bytecode transform time: 20.10 s"),
    (300, "INFO [backends.py:392] Compiling a graph for compile range (1, 8192) takes 170.00 s"),
    (304, "INFO [monitor.py:48] torch.compile took 195.00 s in total"),
    (330, "INFO [gpu_worker.py:437] Available KV cache memory: 60.1 GiB"),
    (331, "INFO [kv_cache_utils.py:1708] GPU KV cache size: 300,000 tokens"),
    (372, "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|##########| 35/35"),
    (373, "INFO Graph capturing finished in 40 secs, took 0.90 GiB"),
    (375, "INFO init engine (profile, create kv cache, warmup model) took 271.00 s"),
    (380, "INFO Starting vLLM server on http://0.0.0.0:8000"),
    (382, "INFO:     Application startup complete."),
]
# The compile of vLLM 0.32 on a CPU, which does not say how long it took.
COMPILING_CPU = [
    (0, "(EngineCore pid=27) INFO Initializing a V1 LLM engine (v0.32.0) with config"),
    (10, "(Worker pid=40) INFO [cpu_model_runner.py:68] Starting to load model /tiny-gemma4..."),
    (11, "(Worker pid=40) INFO [default_loader.py:501] Loading weights took 0.03 seconds"),
    (13, "(Worker pid=40) INFO [cpu_model_runner.py:87] Warming up model for the compilation..."),
    (74, ("(EngineCore pid=27) INFO [shm_broadcast.py:871] No available shared memory broadcast "
          "block found in 60 seconds. This typically happens when some processes are hanging or")),
    (83, "(Worker pid=40) INFO [decorators.py:743] [backbone] saved AOT compiled function to /r/c"),
    (84, "(Worker pid=40) INFO [monitor.py:91] Initial profiling/warmup run took 0.15 s"),
    (85, "(EngineCore pid=27) INFO [kv_cache_utils.py:2327] CPU KV cache size: 671,088 tokens"),
]


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def a_boot(scale: float = 1.0) -> tuple[Boot, Clock]:
    clock = Clock()
    return Boot(clock=clock, scale=scale), clock


def replay(lines: list[tuple[int, str]]) -> Boot:
    boot, clock = a_boot()
    for clock.now, line in lines:
        boot.line(line)
        assert not boot.hung(idle=0)
        assert not boot.dead
    return boot


def test_a_healthy_boot_goes_through_its_phases() -> None:
    boot, clock = a_boot()
    for line in HEALTHY:
        clock.now += 2
        boot.line(line)
    assert boot.ready
    assert not boot.dead
    assert boot.durations["weights"] == 2


def test_compile_and_graph_capture_are_phases_of_their_own_as_long_as_the_server_says() -> None:
    boot = replay(COMPILING)
    assert boot.ready
    assert boot.durations["compile"] == 195  # its first line comes 16 s after it began
    assert boot.durations["graphs"] == 42  # its first line comes when it is done
    assert (boot.durations["warm-up"], boot.durations["profile"]) == (9, 26)
    assert sum(boot.durations.values()) == 382


def test_the_phases_show_while_they_last() -> None:
    boot, clock = a_boot()
    names = []
    for clock.now, line in COMPILING:
        boot.line(line)
        names.append(boot.name)
    assert list(dict.fromkeys(names)) == [phase.name for phase in PHASES[1:]]


def test_the_compile_of_a_cpu_is_a_phase_too() -> None:
    boot = replay(COMPILING_CPU)
    assert (boot.durations["compile"], boot.durations["profile"]) == (71, 1)


def test_a_line_that_only_tells_of_waiting_is_no_progress() -> None:
    boot, clock = a_boot()
    for clock.now, line in COMPILING_CPU[:4]:
        boot.line(line)
    for clock.now in range(73, 1893, 60):
        boot.line(COMPILING_CPU[4][1])
    assert 'phase "compile"' in boot.hung()


def test_an_eager_boot_has_neither() -> None:
    boot = replay([(at, line) for at, line in COMPILING
                   if not any(word in line for word in ("ompil", "raph", "Dynamo"))])
    assert boot.ready
    assert not {"compile", "profile", "graphs"} & set(boot.durations)


def test_a_stated_time_never_takes_more_than_there_is() -> None:
    boot, clock = a_boot()
    clock.now = 5
    boot.line("INFO torch.compile took 195.00 s in total")
    assert boot.durations == {"start": 0, "compile": 5, "profile": 0}


def test_a_slow_compile_that_prints_is_no_hang() -> None:
    boot, clock = a_boot()
    boot.line("INFO Dynamo bytecode transform time: 9 s")
    for _ in range(10):
        clock.now += 1000
        boot.line("INFO Compiling a graph for dynamic shape")
        assert not boot.hung(idle=0)
    assert boot.name == "compile"


def test_five_silent_minutes_of_compiling_are_no_hang_while_something_works() -> None:
    boot, clock = a_boot()
    boot.line("INFO Loading weights took 84 seconds")
    clock.now = 1799
    assert not boot.hung(idle=0)
    assert not boot.hung(idle=299)


def test_five_silent_minutes_in_which_nothing_works_are_a_hang() -> None:
    boot, clock = a_boot()
    boot.line("INFO Dynamo bytecode transform time: 9 s")
    clock.now = 301
    assert 'phase "compile", and for 301 s nothing' in boot.hung(idle=301)


def test_weights_may_be_waited_for_without_work() -> None:
    boot, clock = a_boot()
    boot.line("INFO Starting to load model x")
    clock.now = 1700
    assert not boot.hung(idle=1700)


def test_silence_for_too_long_is_a_hang_even_at_work_and_names_its_phase() -> None:
    boot, clock = a_boot()
    boot.line("INFO Dynamo bytecode transform time: 9 s")
    clock.now = 1801
    assert 'phase "compile"' in boot.hung()


def test_an_emulated_machine_may_be_silent_longer() -> None:
    boot, clock = a_boot(scale=10)
    clock.now = 2999
    assert not boot.hung(idle=2999)
    clock.now = 3001
    assert boot.hung()


# The last ones as vLLM 0.32 wrote them when a worker, and then an engine core, was killed.
@pytest.mark.parametrize("line", [
    "ERROR EngineCore failed to start.",
    "ERROR [multiproc_executor.py:870] WorkerProc failed to start.",
    "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
    ("(EngineCore pid=28) ERROR 11-21 08:30:07 [multiproc_executor.py:315] Worker proc "
     "VllmWorker-0 died unexpectedly (exit code: None), shutting down executor."),
    ("(APIServer pid=1) WARNING 11-21 08:32:26 [core_client.py:817] [shutdown] MPClient: engine "
     "core exited unexpectedly; starting cleanup"),
    "RuntimeError: Engine core process EngineCore_DP0 died unexpectedly."])
def test_a_dead_engine_is_seen_at_its_line(line: str) -> None:
    boot, _ = a_boot()
    boot.line(line)
    assert boot.dead


@pytest.mark.parametrize("line", ["INFO EngineCore started", "INFO Worker proc 0 is ready",
                                  "INFO [shutdown] MPClient: engine manager stopped"])
def test_a_line_that_only_mentions_the_engine_is_no_death(line: str) -> None:
    boot, _ = a_boot()
    boot.line(line)
    assert not boot.dead


def test_an_old_marker_does_not_lead_back() -> None:
    boot, _ = a_boot()
    for line in HEALTHY:
        boot.line(line)
    boot.line("Starting to load model again")
    assert boot.ready


def test_every_phase_has_a_name_of_its_own() -> None:
    assert len({phase.name for phase in PHASES}) == len(PHASES)
