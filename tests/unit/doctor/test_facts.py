"""What tools print is parsed; what they do not give stays unseen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.doctor.facts import (
    Slowdown,
    listens,
    parse_addresses,
    parse_cuda,
    parse_docker,
    parse_gpus,
    parse_ibstat,
    parse_links,
    parse_meminfo,
    parse_processes,
    parse_swaps,
)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "doctor"


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
    assert parse_ibstat(None) is None


def test_processes_have_bytes_where_the_driver_says_so() -> None:
    processes = parse_processes("415592, VLLM::EngineCore, 69564\n300, unknown, [N/A]\nbroken\n")
    assert processes is not None
    assert [(each.pid, each.memory) for each in processes] == [(415592, 69564 << 20), (300, None)]


def test_the_driver_states_its_cuda_version_in_the_table_only() -> None:
    assert parse_cuda((FIXTURES / "nvidia-smi.txt").read_text()) == "13.0"
    assert parse_cuda("NVIDIA-SMI has failed") is None


def test_docker_info_with_and_without_an_engine() -> None:
    docker = parse_docker(json.dumps({
        "ServerVersion": "28.5.1", "Runtimes": {"runc": {}, "nvidia": {}},
        "CDISpecDirs": ["/etc/cdi"], "DockerRootDir": "/var/lib/docker"}))
    assert docker is not None
    assert docker.runtimes == ("nvidia", "runc")
    assert not docker.snap
    refused = parse_docker(json.dumps({"ServerErrors": ["permission denied while trying"]}))
    assert refused is not None
    assert "permission denied" in refused.error
    assert parse_docker("") is None
    assert parse_docker("[1]") is None


def test_adapters_with_their_state_and_rate() -> None:
    adapters = parse_ibstat((FIXTURES / "ibstat.txt").read_text())
    assert adapters is not None
    assert [(each.name, each.state, each.rate) for each in adapters] == [
        ("roceP2p1s0f0", "Active", 200), ("roceP2p1s0f1", "Down", 40),
        ("rocep1s0f0", "Active", 200)]


def test_memory_and_swap_in_bytes() -> None:
    memory = parse_meminfo((FIXTURES / "meminfo.txt").read_text())
    assert memory["MemTotal"] == 127601388 * 1024
    head = "Filename Type Size Used Priority\n"
    assert parse_swaps(head + "/swap.img file 16777212 0 -2\n/dev/zram0 partition 8 0 5\n") \
        == 16777220 * 1024
    assert parse_swaps(head) == 0


def test_only_a_listening_socket_on_our_port_takes_it() -> None:
    head = "  sl  local_address rem_address   st\n"
    assert listens(head + "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000\n", None)
    assert not listens(head + "   0: 0100007F:1F40 0100007F:D431 01 00000000:00000000\n", "")
    assert not listens(head + "   0: 0100007F:0050 00000000:0000 0A 00000000:00000000\n", None)


@pytest.mark.parametrize("field", ["Runtimes", "CDISpecDirs", "ServerErrors"])
@pytest.mark.parametrize("value", [5, True, "text", None])
def test_a_field_of_docker_info_in_an_unknown_form_counts_as_not_given(
        field: str, value: object) -> None:
    docker = parse_docker(json.dumps({"ServerVersion": "28.5.1", field: value}))
    assert docker is not None
    assert (docker.version, docker.runtimes, docker.cdi_folders, docker.error) == (
        "28.5.1", (), (), "")


@pytest.mark.parametrize("text", ["{}", '{"Runtimes": {"runc": {}}}', '{"ServerErrors": 7}'])
def test_docker_info_without_version_and_error_is_no_answer(text: str) -> None:
    assert parse_docker(text) is None


def test_an_adapter_without_a_rate_has_rate_0() -> None:
    adapters = parse_ibstat("CA 'mlx5_0'\n\tState: Down\n\tRate: N/A\n")
    assert adapters is not None
    assert [(one.name, one.rate) for one in adapters] == [("mlx5_0", 0)]


@pytest.mark.parametrize("text", ["inf", "nan", "1e999", "\u00b2"])
def test_what_is_no_finite_number_counts_as_not_given(text: str) -> None:
    found = parse_processes(f"12, vllm, {text}\n{text}, x, 5\n")
    assert found is not None
    assert [(one.pid, one.memory) for one in found] == [(12, None)]


def test_links_of_rdma_adapters() -> None:
    links = parse_links((FIXTURES / "ibdev2netdev.txt").read_text())
    assert [(link.adapter, link.device) for link in links if link.up] == [
        ("rocep1s0f1", "enp1s0f1np1"), ("roceP2p1s0f1", "enP2p1s0f1np1")]
    assert len(links) == 4
    assert parse_links(None) == parse_links("command not found") == ()


@pytest.mark.parametrize("text", [None, "", "no JSON", "[1]", '[{"ifname": "a"}]', "[" * 5000])
def test_addresses_in_an_unknown_form_are_none(text: str | None) -> None:
    assert parse_addresses(text) == {}


def test_addresses_by_device() -> None:
    text = json.dumps([{"ifname": "a", "addr_info": [{"family": "inet", "local": "10.0.0.1"},
                                                     {"family": "inet6", "local": "fe80::1"}]}])
    assert parse_addresses(text) == {"a": ("10.0.0.1",)}
