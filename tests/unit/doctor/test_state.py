"""What of the doctor's facts stands in a record, and what names the machine and does not."""

from __future__ import annotations

from doctor.test_judging import NEED, SWAP, host

from builder.doctor.judging import judge
from builder.doctor.state import LEFT_OUT, host_state


def test_facts_and_verdicts_of_a_spark_with_swap() -> None:
    facts = host(texts={"swaps": SWAP, "gpu_processes": "9, /opt/me/bin/python3, 1024"})
    state = host_state(facts, judge(facts, NEED))
    assert (state.clock, state.clock_limit, state.driver_cuda) == (2411, 3003, "13.0")
    assert state.swap == 16777212 * 1024
    assert state.holders == ("python3",)
    assert state.adapters == ("roceP2p1s0f0 200 Gb/s", "rocep1s0f0 200 Gb/s")
    assert str(state).startswith("warning: gpu-holders, swap; ")


def test_nothing_names_the_machine() -> None:
    facts = host(folder={"path": "/home/secret/models", "writable": False, "owner": "secret"})
    state = host_state(facts, judge(facts, NEED))
    text = state.model_dump_json()
    assert not {check.check for check in state.checks} & set(LEFT_OUT)
    for name in ("secret", "/home", "192.168", "/var/lib"):
        assert name not in text


def test_a_host_without_a_gpu() -> None:
    facts = host(texts={"gpus": None, "gpu_processes": None, "docker": None})
    state = host_state(facts, judge(facts, NEED))
    assert state.clock is None
    assert "unfit: docker" in str(state)
    assert "unseen: gpu, gpu-holders" in str(state)
