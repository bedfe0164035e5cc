"""What owners of real hosts posted: each is read whole, and exactly its own faults are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli
from doctor.test_judging import DOCKER, NEED, complaints

from builder.doctor.facts import HostFacts, facts_of
from builder.doctor.judging import judge
from builder.doctor.reading import RawHost

HOSTS = tomli.loads((Path(__file__).parents[2] / "fixtures/doctor/hosts.toml").read_text(
    encoding="utf-8"))["host"]


def facts(host: dict[str, Any]) -> HostFacts:
    """Return the facts of a host; what was not posted is not seen."""
    texts = {"docker": json.dumps(DOCKER), **host["texts"]}
    return facts_of(RawHost(
        machine=host["machine"], kernel="6.17.0-1032-nvidia", user="me", groups=("docker",),
        texts={"earlyoom": "1", **texts}, cdi=(), memlock=-1, folders=(), rdma_devices=True,
        gpu_fault=host.get("gpu_fault", "")))


@pytest.mark.parametrize("host", HOSTS, ids=[host["name"] for host in HOSTS])
def test_a_real_host(host: dict[str, Any]) -> None:
    known = facts(host)
    found = {check: str(verdict) for check, verdict in complaints(known).items()}
    if host["machine"] == "x86_64" and "machine" not in host.get("named", {}):
        found.pop("machine")
    assert found == host.get("named", {})
    lines = {line.check: line.seen for line in judge(known, NEED)}
    assert {check: lines[check] for check in host.get("seen", {})} == host.get("seen", {})
    assert [f"{link.adapter} {link.device}" for link in known.links if link.up] \
        == host.get("links", [])


def test_hosts_of_many_kinds() -> None:
    assert len(HOSTS) >= 12
    assert {host["machine"] for host in HOSTS} == {"aarch64", "x86_64"}
    assert all(host["source"] for host in HOSTS)
