"""A record: what follows from its fields, its digest, its schema, and its name."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from builder.record.check import Check, Status
from builder.record.gpu import Gpu
from builder.record.models import (
    KnownFailure,
    Record,
    digest_of,
    free_path,
    json_schema,
    write_record,
)
from tests.unit.bench_results import a_bench, a_series

SPARK = Gpu(name="NVIDIA GB10", compute_capability="12.1", driver="580")
H200 = Gpu(name="NVIDIA H200", compute_capability="9.0", driver="570")
HOST = {"kernel": "6", "machine": "x86_64", "system": "Debian", "cpu": "A Processor", "cpus": 2,
        "memory": 1, "engine": "Docker 26"}
ROOT = Path(__file__).parents[3]

def a_record(status: Status = Status.PASS, started: str = "2026-01-01T00:00:00Z",
             level: str = "2", image_id: str = "sha256:1") -> Record:
    return Record(cell="cpu", level=level, recipe="tiny", image="r/cpu:cpu", image_id=image_id,
                  lock="sha256:2", labels={}, execution="native", started=started, seconds=1.0,
                  phases={},
                  checks=(Check(check="boot", status=status),), log="log")


def keep(folder: Path, record: Record) -> Path:
    """Write one record into a records folder."""
    return write_record(free_path(folder, record), record)


def test_nothing_checked_is_no_pass() -> None:
    only = Check(check="vision", status=Status.NOT_APPLICABLE, detail="the model has no eyes")
    assert not a_record().model_copy(update={"checks": ()}).passed
    assert not a_record().model_copy(update={"checks": (only,)}).passed


def test_the_committed_schema_is_the_models() -> None:
    committed = json.loads((ROOT / "docs" / "record.schema.json").read_text(encoding="utf-8"))
    assert committed == json_schema(), (
        "update it: python -c 'from builder import console; from builder.record import models; "
        "console.document(models.json_schema())' > docs/record.schema.json")


def test_a_record_is_of_the_published_schema() -> None:
    check = Draft202012Validator(json_schema())
    said = a_record().document()
    assert list(check.iter_errors(said)) == []
    assert list(check.iter_errors({**said, "where": "mars"})) != []
    assert list(check.iter_errors({key: said[key] for key in said if key != "checks"})) != []


def test_a_run_that_did_not_end_has_no_verdict() -> None:
    for state in ("running", "interrupted"):
        cut = a_record().model_copy(update={"state": state})
        assert (cut.verdict, cut.passed, cut.is_conclusive) == ("none", False, False)
    assert a_record(Status.FAIL).model_copy(update={"state": "running"}).is_conclusive


@pytest.mark.parametrize(("gpus", "execution", "where"), [
    ((SPARK,), "native", "gb10"), ((H200,), "native", "gpu"), ((SPARK, H200), "native", "gpu"),
    ((), "native", "cpu"), ((), "emulated", "emulated"), ((SPARK,), "unseen", "unseen")])
def test_the_place_of_measure_follows_from_what_was_seen(
        gpus: tuple[Gpu, ...], execution: str, where: str) -> None:
    record = a_record().model_copy(update={"gpus": gpus, "execution": execution})
    assert (record.where, record.gb10) == (where, where == "gb10")


@pytest.mark.parametrize(("stated", "told"), [
    ({"where": "gb10"}, "measured on gb10, the record on cpu"),
    ({"hardware": "NVIDIA GB10"}, 'measured on "NVIDIA GB10", the record has seen "2 x A')])
def test_a_benchmark_may_not_claim_other_hardware_than_the_record_has_seen(
        stated: dict[str, Any], told: str) -> None:
    bench = a_bench([a_series(1.0, 1.1)])
    body = {**a_record(level="bench").document(), "host": HOST, "bench": bench.model_dump()}
    assert Record.model_validate(body).bench == bench
    body["bench"]["conditions"].update(stated)
    with pytest.raises(ValidationError, match=told):
        Record.model_validate(body)


def test_the_digest_is_over_all_other_fields() -> None:
    document = a_record().document()
    digest = document.pop("digest")
    assert digest == digest_of(document) == digest_of(dict(reversed(document.items())))
    assert digest != digest_of({**document, "seconds": 2.0})


def test_the_digest_is_the_sha256_of_a_form_that_any_language_can_make() -> None:
    assert digest_of({"b": "ü", "a": [1.5, None]}) == (
        "sha256:" + hashlib.sha256(rb'{"a":[1.5,null],"b":"\u00fc"}').hexdigest())


def test_a_known_failure_reads_as_lines() -> None:
    claimed = KnownFailure(name="no-loop", cause="x", seen="line", shown_by="a look",
                           or_else=("another cause",), remedy="y", until="z", links=("l", "m"))
    assert str(claimed).splitlines() == [
        "no-loop: x", "  seen:     line", "  shown by: a look", "  or else:  another cause",
        "  remedy:   y", "  until:    z", "  see:      l", "            m"]
    assert str(KnownFailure(name="a", cause="x", confirmed=False)) == "a: likely: x"
    ruled_out = KnownFailure(name="a", cause="x", ruled_out="vllm 0.32.0 is not affected")
    assert str(ruled_out) == (
        "a: x\n  not claimed: the log looks like it, but vllm 0.32.0 is not affected")


def test_a_record_is_named_after_its_start_and_level(tmp_path: Path) -> None:
    path = free_path(tmp_path, a_record())
    assert path.relative_to(tmp_path).as_posix() == "cpu/20260101T000000Z-2.json"
    write_record(path, a_record())
    assert free_path(tmp_path, a_record()).name == "20260101T000000Z-2_2.json"
