"""The state of the host in one line, and records of before that have none."""

from __future__ import annotations

import json
from pathlib import Path

from record.test_models import a_record

from builder.record.host_state import HostCheck, HostState
from builder.record.models import digest_of, write_record
from builder.record.reader import read_record

STATE = HostState(memory_available=5, checks=(
    HostCheck(check="memory", verdict="unfit", seen="5 B available"),
    HostCheck(check="swap", verdict="warning", seen="on"),
    HostCheck(check="docker", verdict="ok", seen="28")))


def test_one_line() -> None:
    assert str(STATE) == "unfit: memory; warning: swap; 1 ok"
    assert str(HostState(checks=STATE.checks[2:])) == "1 ok"


def test_only_what_may_explain_a_result_is_a_complaint() -> None:
    unseen = HostCheck(check="gpu", verdict="unseen", seen="nvidia-smi shows no GPU")
    assert STATE.complains
    assert not HostState(checks=(STATE.checks[2], unseen)).complains


def test_it_comes_back_from_the_record(tmp_path: Path) -> None:
    record = a_record().model_copy(update={"host_state": STATE})
    assert read_record(write_record(tmp_path / "r.json", record)).host_state == STATE


def test_a_record_of_before_is_still_read(tmp_path: Path) -> None:
    old = a_record().document()
    del old["host_state"], old["digest"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps({**old, "digest": digest_of(old)}))
    assert read_record(path).host_state is None
