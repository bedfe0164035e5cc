"""Why a server died: each way to run out of memory by name, quiet on a good boot."""

from __future__ import annotations

import pytest
from server_logs import HEALTHY

from builder.smoke.causes import SHORTAGES, first_error, shortage
from tests.unit.smoke.test_readiness import COMPILING

GOOD = [*HEALTHY, *(line for _, line in COMPILING)]
LINES = [
    ("does not hold", ("ValueError: To serve at least one request with the model's max seq len "
     "(262144), (12.1 GiB KV cache is needed, which is larger than the available KV cache memory "
     "(2.4 GiB). Based on the available memory, the estimated maximum model length is 65120.")),
    ("no memory is left", "ValueError: No available memory for the cache blocks. Try increasing"),
    ("less memory is free", ("ValueError: Free memory on device (20.1/121.7 GiB) on startup is "
     "less than desired GPU memory utilization (0.9, 109.5 GiB).")),
    ("GPU's memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 394.00 MiB."),
    ("kernel killed", "[26265.4] Memory cgroup out of memory: Killed process 11587 (python)"),
    ("host's memory", ("RuntimeError: [enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: "
     "can't allocate memory: you tried to allocate 68719476736 bytes.")),
    ("a process was killed", ("ERROR Worker proc VllmWorker-0 died unexpectedly (exit code: -9), "
     "shutting down executor.")),
    ("a process was killed", "Killed"),
]


@pytest.mark.parametrize(("name", "line"), LINES)
def test_each_shortage_is_named(name: str, line: str) -> None:
    assert name in shortage([*GOOD, line])


def test_every_shortage_has_a_case_here() -> None:
    assert all(any(name in one.name for name, _ in LINES) for one in SHORTAGES)


@pytest.mark.parametrize("line", [
    "INFO Available KV cache memory: 81.8 GiB", "INFO Process 12 was Killed by its owner",
    "Worker proc VllmWorker-0 died unexpectedly (exit code: 1), shutting down executor.",
    "WARNING used to prevent the kernel from running out of memory."])
def test_quiet_on_a_good_boot_and_on_neighbours(line: str) -> None:
    assert shortage([*GOOD, line]) == ""


def test_the_length_that_would_fit_is_the_estimate_less_five_per_cent() -> None:
    assert shortage([LINES[0][1]]).endswith("; --max-model-len 61864 would fit")
    for odd in (",", "9" * 5000):  # a log may say anything
        assert shortage([f"the estimated maximum model length is {odd}"])


TRACEBACK = """(EngineCore pid=28) ERROR 11-21 08:30:07 [core.py:1510] EngineCore failed to start.
(EngineCore pid=28) ERROR 11-21 08:30:07 [core.py:1510] Traceback (most recent call last):
(EngineCore pid=28) ERROR 11-21 08:30:07 [core.py:1510]   File "core.py", line 1, in run
(EngineCore pid=28) ERROR 11-21 08:30:07 [core.py:1510]     raise KeyError("layers.0")
(EngineCore pid=28) ERROR 11-21 08:30:07 [core.py:1510] KeyError: 'layers.0'
Traceback (most recent call last):
RuntimeError: Engine core initialization failed. See root cause above.""".splitlines()


def test_the_first_error_is_the_cause_and_not_its_echo() -> None:
    assert first_error([*GOOD, *TRACEBACK]) == "KeyError: 'layers.0'"
    assert first_error(TRACEBACK[5:]) == ""
    assert first_error([*GOOD, "INFO KeyError: as a word"]) == ""
