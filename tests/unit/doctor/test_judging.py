"""A healthy Spark passes every check; each of many unfit ones is named, and by nothing else."""

from __future__ import annotations

import json
import shlex
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from builder.doctor.facts import HostFacts, facts_of
from builder.doctor.judging import BAD_KERNELS, Line, Need, Verdict, judge, rules
from builder.doctor.reading import Folder, RawHost

FIXTURES = Path(__file__).parents[2] / "fixtures" / "doctor"
BUSY = "NVIDIA GB10, 12.1, 580.126.09, P0, 96, 60, 2411, 3003, 0x0000000000000000"
DOCKER = {"ServerVersion": "28.5.1", "Runtimes": {"runc": {}, "nvidia": {}},
          "DockerRootDir": "/var/lib/docker"}
NEED = Need(name="gemma4-26b-a4b-fp8", memory_share=0.7, cuda="13.0", image=9_000_000_000,
            model=50_000_000_000)
MEMINFO = (FIXTURES / "meminfo.txt").read_text()
TCP = "  sl  local_address rem_address st\n   0: 0100007F:0050 00000000:0000 0A 0:0\n"
SWAP = "Filename Type Size Used Priority\n/swap.img file 16777212 0 -2\n"
LINKS = (FIXTURES / "ibdev2netdev.txt").read_text()
ADDRESSES = json.dumps([
    {"ifname": name, "mtu": 9000, "addr_info": [{"family": "inet", "local": address}]}
    for name, address in (("enp1s0f1np1", "192.168.177.11"), ("enP2p1s0f1np1", "192.168.178.11"))])
V4 = "0000:0000:0000:0000:0000:ffff:c0a8:b10b"
GIDS = tuple((adapter, index, kind, address) for adapter in ("rocep1s0f1", "roceP2p1s0f1")
             for index, kind, address in (
                 (0, "IB/RoCE v1", "fe80:0000:0000:0000:0000:0000:0000:0001"),
                 (1, "RoCE v2", "fe80:0000:0000:0000:0000:0000:0000:0001"),
                 (2, "IB/RoCE v1", V4), (3, "RoCE v2", V4)))
CACHE = Folder(path="/home/me/.cache/huggingface", exists=True, writable=True, owner="me",
               free=900_000_000_000)


def host(folder: dict[str, Any] | None = None, texts: dict[str, str | None] | None = None,
         **changes: Any) -> HostFacts:
    """Return a healthy Spark but for ``changes``."""
    usual: dict[str, str | None] = {
        "gpus": BUSY, "gpu_processes": "", "gpu_summary": (FIXTURES / "nvidia-smi.txt").read_text(),
        "docker": json.dumps(DOCKER), "ibstat": (FIXTURES / "ibstat.txt").read_text(),
        "ibdev2netdev": LINKS, "addresses": ADDRESSES,
        "earlyoom": "812\n", "desktop": "", "ollama": "", "meminfo": MEMINFO,
        "swaps": SWAP.splitlines()[0], "tcp": TCP, "cuda_memory": "118146539520 130653057024\n"}
    raw: dict[str, Any] = {
        "machine": "aarch64", "kernel": "6.17.0-1032-nvidia", "user": "me", "groups": ("docker",),
        "texts": {**usual, **(texts or {})}, "cdi": (), "memlock": -1,
        "folders": (CACHE.model_copy(update=folder or {}),), "gids": GIDS, "rdma_devices": True,
        **changes}
    return facts_of(RawHost.model_validate(raw))


def complaints(facts: HostFacts, need: Need = NEED) -> dict[str, Verdict]:
    return {line.check: line.verdict for line in judge(facts, need)
            if line.verdict in (Verdict.UNFIT, Verdict.WARNING)}


def test_a_healthy_spark_passes_everything() -> None:
    lines = judge(host(), NEED)
    assert {line.verdict for line in lines} == {Verdict.OK}
    assert len(lines) >= 18


UNFIT: dict[str, tuple[str, dict[str, Any]]] = {
    "x86-64": ("machine", {"machine": "x86_64"}),
    "another GPU": ("gpu", {"texts": {"gpus": BUSY.replace("12.1", "8.9")}}),
    "an old driver": ("driver", {"texts": {"gpus": BUSY.replace("580.126.09", "570.86.15")}}),
    "a driver that was updated under its kernel": ("driver-answers", {
        "gpu_fault": "Failed to initialize NVML: Driver/library version mismatch",
        "texts": {"gpus": None, "gpu_processes": None}}),
    "a driver of CUDA 12.8": ("cuda", {"texts": {"gpu_summary": "CUDA Version: 12.8"}}),
    "no docker": ("docker", {"texts": {"docker": None}}),
    "an engine that is down": ("docker", {"texts": {"docker": json.dumps(
        {"ServerErrors": ["Cannot connect to the Docker daemon"]})}}),
    "not in the group docker": ("docker-group", {"texts": {"docker": json.dumps(
        {"ServerErrors": ["permission denied while trying to connect to the Docker daemon"]})}}),
    "docker from snap": ("docker-snap", {"texts": {"docker": json.dumps(
        {**DOCKER, "DockerRootDir": "/var/snap/docker/common/var-lib-docker"})}}),
    "no NVIDIA runtime": ("gpu-in-containers", {"texts": {"docker": json.dumps(
        {**DOCKER, "Runtimes": {"runc": {}}})}}),
    "memory in use": ("memory", {"texts": {"meminfo": MEMINFO.replace(
        "118365908", "27365908")}}),
    "a stuck low-power state": ("clocks", {"texts": {"gpus": BUSY.replace("2411", "690")}}),
    "the port": ("port", {"texts": {"tcp": TCP.replace("0050", "1F40")}}),
    "a cache of root": ("folder", {"folder": {"writable": False, "owner": "root"}}),
    "files of root in the cache": ("folder", {"folder": {"foreign": ("hub",)}}),
    "a cache on a file system that keeps no files": (
        "folder-unusable", {"folder": {"writable": False, "problem": "it keeps no files"}}),
    "a full disk": ("disk", {"folder": {"free": 20_000_000_000}}),
}
WARNED: dict[str, tuple[str, dict[str, Any]]] = {
    "a bad kernel": ("kernel", {"kernel": BAD_KERNELS[0]}),
    "heat": ("slowdown", {"texts": {"gpus": BUSY.replace("0x0000000000000000", "0x60")}}),
    "memory that the start itself would use up": ("memory", {"texts": {"meminfo": MEMINFO.replace(
        "118365908", "95365908")}}),
    "a CUDA that gets less than the recipe asks for": ("cuda-memory", {"texts": {
        "cuda_memory": "88000000000 130653057024"}}),
    "a large page cache": ("page-cache", {"texts": {"meminfo": MEMINFO.replace(
        "6024020", "60240200").replace("112040196", "57824016")}}),
    "another server": ("gpu-holders", {"texts": {"gpu_processes": "9, VLLM::EngineCore, 1024"}}),
    "Ollama": ("gpu-holders", {"texts": {"ollama": "77\n"}}),
    "memory of a killed server": ("held-memory", {"texts": {"meminfo": MEMINFO.replace(
        "112040196", "72040196")}}),
    "swap": ("swap", {"texts": {"swaps": SWAP}}),
    "no earlyoom": ("earlyoom", {"texts": {"earlyoom": None}}),
    "a desktop": ("desktop", {"texts": {"desktop": "1401\n"}}),
    "one adapter of two": ("rdma", {"texts": {"ibstat": (FIXTURES / "ibstat.txt").read_text()
                                              .split("CA 'rocep1s0f0'")[0]}}),
    "a low memlock": ("memlock", {"memlock": 8 << 20}),
    "no RDMA devices": ("rdma-devices", {"rdma_devices": False}),
    "a link without address": ("rdma-address", {"texts": {"addresses": "[]"}}),
    "indices that differ": ("rdma-gid", {"gids": (*GIDS[:-1], ("roceP2p1s0f1", 5, "RoCE v2", V4))}),
    "no RoCE v2 address": ("rdma-gid", {"gids": GIDS[:3] + GIDS[4:]}),
}


@pytest.mark.parametrize("fault", UNFIT)
def test_an_unfit_host_is_named(fault: str) -> None:
    check, changes = UNFIT[fault]
    assert complaints(host(**changes)) == {check: Verdict.UNFIT}


@pytest.mark.parametrize("fault", WARNED)
def test_a_host_that_may_fail_is_warned_about(fault: str) -> None:
    check, changes = WARNED[fault]
    assert complaints(host(**changes)) == {check: Verdict.WARNING}


def test_the_remedy_for_a_folder_is_quoted_for_the_shell_that_it_is_pasted_into() -> None:
    folder = Folder(path="/x; rm -rf $HOME", exists=True, writable=False, owner="root", free=10**13)
    remedy = next(line.remedy for line in judge(host(folders=(folder,)), Need())
                  if line.check == "folder" and line.remedy)
    assert shlex.split(remedy) == ["sudo", "chown", "-R", "$USER", "/x; rm -rf $HOME"]


FAULTS = {**{name: (*fault, Verdict.UNFIT) for name, fault in UNFIT.items()},
          **{name: (*fault, Verdict.WARNING) for name, fault in WARNED.items()}}


def both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any] | None:
    """Return the changes of two faults at once, None where they change the same thing."""
    merged = dict(one)
    for key, value in other.items():
        if key not in merged:
            merged[key] = value
        elif key in ("texts", "folder") and not merged[key].keys() & value.keys():
            merged[key] = {**merged[key], **value}
        else:
            return None
    return merged


# The first is asked only where the second is in order.
NEEDS = (("page-cache", "gpu"), ("rdma-gid", "rdma-address"), ("folder", "folder-unusable"),
         ("disk", "folder-unusable"), *((check, "driver-answers") for check in (
             "cuda", "cuda-memory", "gpu-in-containers", "page-cache", "held-memory", "gpu-holders",
             "earlyoom", "desktop", "gpu")))


def asked(named: dict[str, Verdict]) -> dict[str, Verdict]:
    """Leave out what is not asked beside what is wrong already."""
    return {check: verdict for check, verdict in named.items()
            if not any(check == one and other in named for one, other in NEEDS)}


PAIRS = [(one, other) for one, other in combinations(FAULTS, 2)
         if both(FAULTS[one][1], FAULTS[other][1]) is not None]


def test_of_two_faults_at_once_each_is_named() -> None:
    for one, other in PAIRS:
        changes = both(FAULTS[one][1], FAULTS[other][1])
        assert changes is not None
        named = {FAULTS[fault][0]: FAULTS[fault][2] for fault in (one, other)}
        assert complaints(host(**changes)) == asked(named), (one, other)
    assert len(PAIRS) > 300


def test_a_host_with_every_kind_of_fault_has_each_named() -> None:
    changes: dict[str, Any] = {}
    named: dict[str, Verdict] = {}
    for check, change, verdict in FAULTS.values():
        merged = both(changes, change)
        if merged is not None:
            changes, named[check] = merged, verdict
    assert complaints(host(**changes)) == asked(named)
    assert len(named) >= 14


def test_cuda_sees_free_memory_only_and_the_page_cache_is_for_unified_memory_to_fear() -> None:
    full = {"meminfo": MEMINFO.replace("6024020", "60240200").replace("112040196", "57824016")}
    assert "CUDA's own figure of free memory is 59.2 GB" in line_of(
        host(texts=full), "page-cache").seen
    discrete = {**full, "gpus": BUSY.replace("12.1", "9.0")}
    assert complaints(host(texts=discrete)) == {"gpu": Verdict.UNFIT}
    assert "CUDA" not in line_of(host(texts=discrete), "page-cache").seen


def test_every_complaint_says_why_what_to_do_and_its_source() -> None:
    for check, changes in (*UNFIT.values(), *WARNED.values()):
        (line,) = (each for each in judge(host(**changes), NEED) if each.check == check
                   and each.remedy)
        assert line.reason
        assert line.source.startswith("https://")
    assert {check for check, _ in (*UNFIT.values(), *WARNED.values())} == set(rules())


def line_of(facts: HostFacts, check: str, need: Need = NEED) -> Line:
    return next(line for line in judge(facts, need) if line.check == check)


def test_what_cannot_be_seen_is_said_and_does_not_pass() -> None:
    blind = host(texts={"gpus": None, "gpu_processes": None, "meminfo": None})
    for check in ("gpu", "gpu-holders", "memory"):
        if check != "gpu-holders":
            assert line_of(blind, check).verdict is Verdict.UNSEEN
    assert "driver" not in {line.check for line in judge(blind, NEED)}


def test_without_ibdev2netdev_links_are_not_seen() -> None:
    line = line_of(host(texts={"ibdev2netdev": None}), "rdma-address")
    assert (line.verdict, line.remedy) == (Verdict.UNSEEN, "")


def test_one_address_of_two_links_is_enough() -> None:
    one = json.dumps(json.loads(ADDRESSES)[:1])
    assert complaints(host(texts={"addresses": one})) == {}
    assert line_of(host(texts={"addresses": one}), "rdma-address").seen == (
        "rocep1s0f1 is enp1s0f1np1 (192.168.177.11); roceP2p1s0f1 is enP2p1s0f1np1 (no address)")


def test_an_idle_gpu_does_not_show_whether_its_clock_is_stuck() -> None:
    idle = host(texts={"gpus": BUSY.replace("96, 60, 2411", "0, 3, 208")})
    assert line_of(idle, "clocks").verdict is Verdict.UNSEEN


def test_a_gpu_and_aarch64_are_needed_by_a_recipe_and_not_by_the_host_itself() -> None:
    assert line_of(host(texts={"gpus": ""}), "gpu").verdict is Verdict.UNFIT
    pc = host(machine="x86_64", folder={"free": 5}, texts={"gpus": ""})
    assert complaints(pc, Need()) == {}
    assert line_of(pc, "machine", Need()).seen == "x86_64, which runs the CPU images only"
    assert line_of(pc, "gpu", Need()).verdict is Verdict.UNSEEN


def test_without_a_recipe_the_disk_must_hold_a_build() -> None:
    need = Need(build=31_200_000_000, cell="tf5")
    assert complaints(host(folder={"free": 31_200_000_000}), need) == {}
    narrow = line_of(host(folder={"free": 13_000_000_000}), "disk", need)
    assert (narrow.verdict, narrow.seen) == (
        Verdict.WARNING, "13.0 GB free, a build of tf5 takes 31.2 GB")


def test_of_a_folder_that_nobody_can_use_no_free_space_is_told() -> None:
    nowhere = CACHE.model_copy(update={"path": "/proc/x", "free": 0, "problem": "keeps no files"})
    assert line_of(host(folders=(nowhere, CACHE)), "disk").seen.startswith("900 GB free")
    assert "disk" not in {line.check for line in judge(host(folders=(nowhere,)), NEED)}


def test_a_holder_of_the_gpu_is_named_with_its_container() -> None:
    cgroup = f"0::/system.slice/docker-{'4f' * 32}.scope"
    held = host(texts={"gpu_processes": "9, VLLM::EngineCore, 69564\n8, python3, [N/A]",
                       "containers": f"{'4f' * 32} my-vllm\n"}, cgroups={9: cgroup})
    assert line_of(held, "gpu-holders").seen == (
        "VLLM::EngineCore in container my-vllm (72.9 GB), python3 (size not given)")


def test_a_driver_that_names_no_cuda_version_does_not_pass() -> None:
    assert line_of(host(texts={"gpu_summary": None}), "cuda").verdict is Verdict.UNSEEN


def test_without_an_answer_of_cuda_its_memory_is_not_seen() -> None:
    line = line_of(host(texts={"cuda_memory": None}), "cuda-memory")
    assert (line.verdict, line.remedy) == (Verdict.UNSEEN, "")


def test_cdi_gives_containers_a_gpu_too() -> None:
    cdi = json.dumps({**DOCKER, "Runtimes": {"runc": {}}, "CDISpecDirs": ["/etc/cdi"]})
    assert complaints(host(texts={"docker": cdi}, cdi=("nvidia.yaml",))) == {}


def test_one_spark_without_a_link_needs_no_rdma() -> None:
    down = (FIXTURES / "ibstat.txt").read_text().replace("Active", "Down")
    assert complaints(host(texts={"ibstat": down}, memlock=1)) == {}
