"""``sparkyard promote``: what moves, what is said, and the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.cli import run
from builder.promotion.evidence import LOST_TYPE, RECORD_TYPE, attach_record
from builder.promotion.signing import SIGNATURE_TYPE
from builder.record.check import Status
from builder.record.models import records_folder
from builder.registry.repository import fallback_tag
from tests.unit.fake_repository import Memory, of_image, put_image, repository
from tests.unit.promotion_checkout import make_checkout
from tests.unit.record.test_models import a_record, keep


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def matrix(tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> str:
    return make_checkout(tmp_path, memory, monkeypatch)


def cache(matrix: str) -> Path:
    return records_folder(Path(matrix).parent / "cache")


def test_this_machines_records_are_attached_and_the_tag_moves(
        matrix: str, memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    image = put_image(memory, "x", tags=["cpu-next"])
    keep(cache(matrix), of_image(a_record(), image))
    assert run(["--matrix", matrix, "promote", "cpu", "--json"]) == 0
    (value,) = json.loads(capsys.readouterr().out)
    assert (value["tag"], value["digest"], value["records_attached"]) == ("cpu", image.digest, 1)
    assert memory.tags["cpu"] == image.digest
    assert run(["--matrix", matrix, "promote", "cpu"]) == 0
    assert "it points there already" in capsys.readouterr().out


def test_a_lower_level_moves_the_unverified_tag_and_says_so(
        matrix: str, memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    image = put_image(memory, "x", tags=["cpu-next"])
    keep(cache(matrix), of_image(a_record(level="1a"), image))
    assert run(["--matrix", matrix, "promote", "cpu"]) == 0
    said = capsys.readouterr().out
    assert f"cpu-unverified -> {image.digest}" in said
    assert "cpu itself stays as it is: this image has not shown" in said


def test_a_record_that_says_fail_is_attached_too_and_refuses(
        matrix: str, memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    image = put_image(memory, "x", tags=["cpu-next"])
    for status in (Status.FAIL, Status.PASS):
        keep(cache(matrix), of_image(a_record(status), image))
    assert run(["--matrix", matrix, "promote", "cpu"]) == 1
    assert "a record says fail: level 2, cpu, tiny" in capsys.readouterr().err
    assert "cpu" not in memory.tags


def test_an_image_whose_records_were_lost_is_refused_until_the_matrix_names_the_loss(
        matrix: str, memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    image, there = put_image(memory, "x", tags=["cpu-next"]), repository(memory)
    keep(cache(matrix), of_image(a_record(), image))
    attach_record(there, image, of_image(a_record(Status.FAIL), image))
    memory.damaged.add(fallback_tag(image.digest))
    for _ in range(2):
        assert run(["--matrix", matrix, "promote", "cpu"]) == 1
        said = capsys.readouterr().err
        assert "records were lost" in said
        assert "cpu" not in memory.tags
    (lost,) = there.referrers(image.digest, LOST_TYPE)
    assert lost.digest in said
    ignored = f'ignored = [{{ record = "{lost.digest}", reason = "pushed again" }}], unverified ='
    Path(matrix).write_text(Path(matrix).read_text().replace("unverified =", ignored))
    assert run(["--matrix", matrix, "promote", "cpu"]) == 0
    assert memory.tags["cpu"] == image.digest


def test_the_log_is_shown_with_a_tag_that_was_moved_by_hand(
        matrix: str, memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    image = put_image(memory, "x", tags=["cpu-next"])
    keep(cache(matrix), of_image(a_record(), image))
    run(["--matrix", matrix, "promote", "cpu", "--reason", "first one"])
    put_image(memory, "y", tags=["cpu"])
    capsys.readouterr()
    assert run(["--matrix", matrix, "promote", "cpu", "--log"]) == 0
    shown = capsys.readouterr()
    assert "first one" in shown.out
    assert "not at its log's last image" in shown.err
    assert run(["--matrix", matrix, "promote", "cpu", "--log", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert [entry["target"] for entry in first["entries"]] == [image.digest]


def test_a_record_of_another_machine_is_attached_and_must_be_of_this_image(
        matrix: str, memory: Memory, tmp_path: Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    image = put_image(memory, "x", tags=["cpu-next"])
    path = keep(tmp_path / "sent", a_record())
    assert run(["--matrix", matrix, "promote", "cpu", "--record", str(path)]) == 1
    assert "this record is about another image" in capsys.readouterr().err
    path = keep(tmp_path / "sent", of_image(a_record(), image))
    assert run(["--matrix", matrix, "promote", "cpu", "--record", str(path)]) == 0
    assert memory.tags["cpu"] == image.digest


def test_a_signature_beside_a_record_is_attached_with_it(
        matrix: str, memory: Memory, tmp_path: Path) -> None:
    image = put_image(memory, "x", tags=["cpu-next"])
    path = keep(tmp_path / "sent", of_image(a_record(), image))
    path.with_name(f"{path.name}.sig").write_text("MEUC\n")
    assert run(["--matrix", matrix, "promote", "cpu", "--record", str(path)]) == 0
    there = repository(memory)
    (record,) = there.referrers(image.digest, RECORD_TYPE)
    (signature,) = there.referrers(record.digest, SIGNATURE_TYPE)
    assert there.attached(signature, record.digest) == b"MEUC"
