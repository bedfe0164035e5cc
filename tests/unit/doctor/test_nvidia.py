"""What nvidia-smi prints, in rows and in its long form, by drivers of many years."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.doctor.nvidia import Slowdown, parse_cuda, parse_gpus, parse_processes

FIXTURES = Path(__file__).parents[2] / "fixtures" / "doctor"
Q_580 = (FIXTURES / "nvidia-smi-q-580.txt").read_text(encoding="utf-8")
Q_610 = (FIXTURES / "nvidia-smi-q-610.txt").read_text(encoding="utf-8")
CONTAINER = "4f" * 32


def test_a_gb10_gives_no_memory_and_may_give_no_power() -> None:
    gpus = parse_gpus("NVIDIA GB10, 12.1, 580.173.02, P0, 96, [N/A], 690, 3003, 0x0\n")
    assert gpus is not None
    (gpu,) = gpus
    assert (gpu.name, gpu.capability, gpu.driver) == ("NVIDIA GB10", "12.1", "580.173.02")
    assert (gpu.utilization, gpu.power, gpu.clock, gpu.clock_limit) == (96, None, 690, 3003)


@pytest.mark.parametrize(("mask", "faults"), [
    ("0x0000000000000001", 0),  # idle
    ("0x0000000000000020", Slowdown.SOFTWARE_THERMAL),
    ("0x0000000000000089", Slowdown.POWER_BRAKE | Slowdown.HARDWARE),
    ("[N/A]", 0),
])
def test_only_faults_count_as_a_slowdown(mask: str, faults: int) -> None:
    gpus = parse_gpus(f"NVIDIA GB10, 12.1, 580.95, P0, 9, 4, 208, 3003, {mask}")
    assert gpus is not None
    assert gpus[0].slowdown == faults


def test_no_answer_is_not_an_empty_one() -> None:
    assert parse_gpus(None) is None
    assert parse_gpus("") == ()
    assert parse_processes(None) is None
    assert parse_processes("") == ()


def test_the_long_form_says_what_the_rows_say() -> None:
    gpus = parse_gpus(None, Q_580)
    assert gpus is not None
    (gpu,) = gpus
    assert (gpu.name, gpu.driver, gpu.state) == (
        "NVIDIA GeForce RTX 5080 Laptop GPU", "580.173.02", "P8")
    assert (gpu.utilization, gpu.power, gpu.clock, gpu.clock_limit) == (0, 12.72, 427, 3090)
    assert gpu.capability == ""
    assert gpu.slowdown == 0  # its counters of before are no reason of now


def test_the_long_form_of_driver_610_marks_its_old_names() -> None:
    gpus = parse_gpus(None, Q_610)
    assert gpus is not None
    assert [(gpu.driver, gpu.clock, gpu.power) for gpu in gpus] == [("610.60", 270, 26.04)]


def test_a_gb10_is_known_by_its_name_in_the_long_form() -> None:
    gpus = parse_gpus(None, Q_580.replace("NVIDIA GeForce RTX 5080 Laptop GPU", "NVIDIA GB10"))
    assert gpus is not None
    assert gpus[0].capability == "12.1"


@pytest.mark.parametrize("section", ["Clocks Event Reasons", "Clocks Throttle Reasons"])
def test_a_slowdown_in_the_long_form_under_both_names(section: str) -> None:
    text = Q_610.replace("Clocks Event Reasons\n", f"{section}\n").replace(
        "HW Thermal Slowdown                        : Not Active",
        "HW Thermal Slowdown                        : Active")
    gpus = parse_gpus(None, text)
    assert gpus is not None
    assert gpus[0].slowdown == Slowdown.HARDWARE_THERMAL


def test_rows_come_before_the_long_form() -> None:
    gpus = parse_gpus("NVIDIA GB10, 12.1, 580.95, P0, 9, 4, 208, 3003, 0x0", Q_610)
    assert gpus is not None
    assert [gpu.name for gpu in gpus] == ["NVIDIA GB10"]


@pytest.mark.parametrize("text", ["", "no long form", "GPU 00000000:01:00.0\n", "GPU 0:\n    :\n"])
def test_a_long_form_in_an_unknown_form_has_no_figures(text: str) -> None:
    assert all(gpu.clock is None and gpu.driver == "" for gpu in parse_gpus(None, text) or ())


def test_processes_have_bytes_where_the_driver_says_so() -> None:
    processes = parse_processes("415592, VLLM::EngineCore, 69564\n300, unknown, [N/A]\nbroken\n")
    assert processes is not None
    assert [(each.pid, each.memory) for each in processes] == [(415592, 69564 << 20), (300, None)]


def test_the_driver_states_its_cuda_version_in_the_table_only() -> None:
    assert parse_cuda((FIXTURES / "nvidia-smi.txt").read_text()) == "13.0"
    assert parse_cuda("NVIDIA-SMI has failed") is None


def test_the_driver_states_its_cuda_version_under_both_names() -> None:
    assert parse_cuda(None, Q_580) == "13.0"
    assert parse_cuda("", Q_610) == "13.3"
    assert parse_cuda("| NVIDIA-SMI 610.43.03  KMD Version: 610.43.03  CUDA UMD Version: 13.3  |") \
        == "13.3"


@pytest.mark.parametrize(("cgroup", "container"), [
    (f"0::/system.slice/docker-{CONTAINER}.scope", "my-vllm"),  # version 2
    (f"11:memory:/docker/{CONTAINER}\n4:cpu:/docker/{CONTAINER}", "my-vllm"),  # version 1
    (f"0::/system.slice/docker-{'ab' * 32}.scope", "abababababab"),
    ("0::/user.slice/user-1000.slice/session-2.scope", "")])
def test_a_process_in_a_container_has_its_name(cgroup: str, container: str) -> None:
    processes = parse_processes("77, VLLM::EngineCore, 69564", {77: cgroup},
                                f"{CONTAINER} my-vllm\n")
    assert processes is not None
    assert processes[0].container == container


@pytest.mark.parametrize("text", ["inf", "nan", "1e999", "\u00b2"])
def test_what_is_no_finite_number_counts_as_not_given(text: str) -> None:
    found = parse_processes(f"12, vllm, {text}\n{text}, x, 5\n")
    assert found is not None
    assert [(one.pid, one.memory) for one in found] == [(12, None)]
