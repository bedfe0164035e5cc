"""Old records go, but none that a tag, a report or a baseline needs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from builder.record.check import Check, Status
from builder.record.expired import KEEP_PER_CELL, KEEP_REPORTS, expired
from builder.record.models import NO_HOST, Record, records_folder, write_record
from builder.record.reader import image_passed
from builder.store.content_store import Store
from builder.store.prune import DAY_S, remove

LONG_AGO = time.time() - 100 * DAY_S
PASS = Check(check="boot", status=Status.PASS)


def record(cache: Path, day: int, *, image: str = "sha256:new", cell: str = "cpu",
           level: str = "2", old: bool = True, log: bool = True) -> Path:
    started = f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}T00:00:00Z"
    name = f"{started.replace('-', '').replace(':', '')}-{level}"
    value = Record.model_validate({
        "cell": cell, "level": level, "started": started, "image_id": image, "image": cell,
        "lock": "sha256:l", "execution": "native", "host": NO_HOST, "checks": (PASS,),
        "recipe": "r",
        "recipe_digest": "sha256:r", "seconds": 1.0, "labels": {}, "phases": {}, "log": ""})
    path = write_record(records_folder(cache) / cell / f"{name}.json", value)
    paths = [path]
    if log:
        paths.append(cache / "logs" / cell / f"{name}.log")
        paths[1].parent.mkdir(parents=True, exist_ok=True)
        paths[1].write_text("log")
    for file in paths if old else ():
        os.utime(file, (LONG_AGO, LONG_AGO))
    return path


def names(cache: Path, days: float = 14) -> list[str]:
    return sorted(item.what for item in expired(cache, days))


@pytest.fixture
def many(tmp_path: Path) -> list[Path]:
    """Return the paths of more old records of one image than are kept, oldest first."""
    return [record(tmp_path, day) for day in range(KEEP_PER_CELL + 3)]


def test_old_records_beyond_the_number_go_with_their_logs(
        tmp_path: Path, many: list[Path]) -> None:
    assert names(tmp_path) == [f"record cpu/{path.stem}" for path in many[:3]]
    store = Store(tmp_path)
    remove(store, expired(tmp_path, 14))
    assert sorted((tmp_path / "records" / "cpu").iterdir()) == many[3:]
    assert len(list((tmp_path / "logs" / "cpu").iterdir())) == KEEP_PER_CELL


def test_young_records_stay_whatever_their_number(tmp_path: Path) -> None:
    for day in range(KEEP_PER_CELL + 3):
        record(tmp_path, day, old=False)
    assert names(tmp_path) == []


def test_the_record_that_a_tag_depends_on_stays_however_old(tmp_path: Path) -> None:
    for level in ("1a", "2"):
        record(tmp_path, 0, image="sha256:tagged", level=level)
    for day in range(1, KEEP_PER_CELL + 3):
        record(tmp_path, day)
    assert image_passed(records_folder(tmp_path), "sha256:tagged")
    remove(Store(tmp_path), expired(tmp_path, 14))
    assert image_passed(records_folder(tmp_path), "sha256:tagged")


def test_what_cannot_be_read_or_is_not_ours_stays(tmp_path: Path, many: list[Path]) -> None:
    strange = [tmp_path / "records/cpu/thesis.json", tmp_path / "logs/cpu/thesis.log",
               tmp_path / "records/cpu/20200101T000000Z-2.json"]
    for path in strange:
        path.write_text("{")
        os.utime(path, (LONG_AGO, LONG_AGO))
    assert names(tmp_path) == [f"record cpu/{path.stem}" for path in many[:3]]


def test_a_log_whose_record_is_gone_goes_when_it_is_old(tmp_path: Path) -> None:
    record(tmp_path, 1).unlink()
    record(tmp_path, 2, old=False).unlink()
    assert names(tmp_path) == ["log cpu/20260102T000000Z-2"]


def test_reports_of_internal_errors_go_by_age_and_number(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for number in range(KEEP_REPORTS + 2):
        path = tmp_path / "logs" / f"internal-error-20260101-0000{number:02d}-abc.txt"
        path.touch()
        os.utime(path, (LONG_AGO, LONG_AGO))
    assert names(tmp_path) == ["report internal-error-20260101-000000-abc",
                               "report internal-error-20260101-000001-abc"]


def test_logs_of_failed_compiles_go_by_age(tmp_path: Path) -> None:
    old, young, foreign = (tmp_path / "logs/wheels" / name for name in (
        "vllm-20260101T000000.log", "vllm-20260102T000000.log", "notes.log"))
    old.parent.mkdir(parents=True)
    for path in (old, young, foreign):
        path.write_text("error")
    for path in (old, foreign):
        os.utime(path, (LONG_AGO, LONG_AGO))
    assert names(tmp_path) == ["log of a compile vllm-20260101T000000"]
