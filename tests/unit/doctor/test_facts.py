"""What tools print is parsed; what they do not give stays unseen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.doctor.facts import (
    listens,
    parse_addresses,
    parse_cuda_memory,
    parse_docker,
    parse_ibstat,
    parse_links,
    parse_meminfo,
    parse_swaps,
)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "doctor"


def test_no_answer_is_not_an_empty_one() -> None:
    assert parse_ibstat(None) is None


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


@pytest.mark.parametrize(("text", "figures"), [
    ("118146539520 130653057024\n", (118146539520, 130653057024)), ("0 5", (0, 5)),
    ("", None), (None, None), ("1 2 3", None), ("free 5", None), ("-1 5", None),
    (f"1 {'9' * 40}", None)])
def test_what_cuda_says_that_it_can_get(text: str | None, figures: tuple[int, int] | None) -> None:
    memory = parse_cuda_memory(text)
    assert (memory and (memory.free, memory.total)) == figures
