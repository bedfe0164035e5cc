"""``sparkyard report``: which record is meant, in which form, and what is no record."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_records import full_record, hostile_record

from builder import cli
from builder.record.find import as_ended, record_id
from builder.record.models import free_path, records_folder, write_record


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    return records_folder(tmp_path / "cache")


def kept(folder: Path, cell: str, day: int, **changes: object) -> Path:
    record = full_record(cell=cell, started=f"2026-01-{day:02}T00:00:00Z", **changes)
    return write_record(free_path(folder, record), record)


@pytest.fixture
def three(folder: Path) -> list[Path]:
    return [kept(folder, "cpu", 1), kept(folder, "cpu", 2), kept(folder, "cpu-arm64", 3)]


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = capsys.readouterr().out.splitlines()
    return [line for line in lines if line.startswith("smoke ")]


def test_the_newest_is_shown_where_none_is_named(three: list[Path],
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report"]) == 0
    assert shown(capsys) == ["smoke cpu-arm64, level 2, measured: cpu; not verified on GB10"]


def test_the_matrix_is_no_place_for_a_report(
        three: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix = tmp_path / "matrix.toml"
    matrix.write_text("mine")
    assert cli.run(["--matrix", str(matrix), "report", "--output", str(matrix)]) == 2
    assert "this command already uses that file" in capsys.readouterr().err
    assert matrix.read_text() == "mine"


@pytest.mark.parametrize(("name", "number"), [
    ("cpu", 1), ("cpu-arm64", 2), ("cpu/20260101T000000Z-2", 0), ("20260102", 1),
    ("cpu/20260101", 0), ("cpu-", 2)])
def test_what_names_a_record(three: list[Path], name: str, number: int,
                             capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", name, "--format", "junit"]) == 0
    suite = ElementTree.fromstring(capsys.readouterr().out)
    stamp = json.loads(three[number].read_text())["started"]
    assert suite.get("timestamp") == stamp


def test_a_file_anywhere_names_a_record(tmp_path: Path, folder: Path,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    path = kept(tmp_path / "elsewhere", "tf5", 1)
    assert cli.run(["report", str(path)]) == 0
    assert shown(capsys)[0].startswith("smoke tf5,")


def test_several_records_are_a_table_each(three: list[Path],
                                          capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", "cpu-arm64", "cpu"]) == 0
    assert [line.split(",")[0] for line in shown(capsys)] == ["smoke cpu-arm64", "smoke cpu"]


@pytest.mark.parametrize(("ending", "begins"), [
    ("html", "<!doctype html>"), ("md", "## FAILED"), ("xml", "<?xml"), ("txt", "smoke cpu")])
def test_the_ending_of_the_file_says_the_format(three: list[Path], tmp_path: Path, ending: str,
                                                begins: str) -> None:
    page = tmp_path / f"page.{ending}"
    assert cli.run(["report", "cpu", "--output", str(page)]) == 0
    assert page.read_text(encoding="utf-8").startswith(begins)


def test_a_format_wins_over_the_ending(three: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert cli.run(["report", "cpu", "--format", "markdown", "--output", str(page)]) == 0
    assert page.read_text(encoding="utf-8").startswith("## ")


@pytest.mark.parametrize("form", ["terminal", "junit", "markdown", "html"])
def test_nothing_unseen_reaches_the_reader(folder: Path, form: str,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    record = hostile_record()
    write_record(folder / "cpu" / "20260101T000000Z-2.json", record)
    assert cli.run(["report", "--format", form]) == 0
    assert not set("\x00\x07\x1b\u202e") & set(capsys.readouterr().out)


def test_several_junit_suites_are_one_document(three: list[Path],
                                               capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["report", "cpu", "cpu-arm64", "--format", "junit"])
    top = ElementTree.fromstring(capsys.readouterr().out)
    assert (top.tag, [suite.get("tests") for suite in top]) == ("testsuites", ["5", "5"])


@pytest.mark.parametrize(("name", "said"), [
    ("tf5", 'no record matches "tf5"'), ("2026", '"2026" matches 3 records'),
    ("x" * 5000, "no record matches")])
def test_an_unclear_name_is_one_plain_error(three: list[Path], name: str, said: str,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", name]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "cpu/20260101T000000Z-2" in error


def test_no_record_at_all_is_one_plain_error(folder: Path,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report"]) == 2
    assert "nox -s smoke" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "said"), [
    ("{", "cannot be read"), ("[1]", "not a record"), ('{"record_version": 99}', "99"),
    ('{"record_version": 3}', "damaged"), ("\udcff", "cannot be read")])
def test_what_is_no_record_is_one_plain_error(folder: Path, tmp_path: Path, text: str, said: str,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert cli.run(["report", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert "Traceback" not in error


def test_a_report_that_cannot_be_written_says_so(three: list[Path], tmp_path: Path,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert cli.run(["report", "--output", str(tmp_path / "file" / "page.html")]) == 2
    assert "its folder does not exist" in capsys.readouterr().err


def test_a_killed_run_is_shown_as_interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("builder.record.find.is_running", lambda name, proc: False)
    kept(folder, "cpu", 1, state="running", process="0123", reason="")
    assert cli.run(["report"]) == 0
    out = capsys.readouterr().out
    assert "its process no longer exists" in out
    assert "INTERRUPTED: cpu" in out


def test_a_run_that_ended_stays_as_it_ended() -> None:
    assert as_ended(full_record()).state == "finished"


def test_an_id_leads_back_to_its_record(three: list[Path]) -> None:
    assert record_id(three[0]) == "cpu/20260101T000000Z-2"


def test_a_dash_is_standard_output_as_for_other_commands(
        three: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["report", "--output", "-"]) == 0
    assert len(shown(capsys)) == 1
    assert not (tmp_path / "-").exists()


def test_old_records_do_not_hide_the_newest_that_can_be_read(
        three: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Records of an older version lay in the cache of a newcomer, and ``report`` showed nothing."""
    for path in three[1:]:
        path.write_text('{"record_version": 1}')
    assert cli.run(["report"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("smoke cpu, level 2")
    assert captured.err.splitlines()[0].startswith(
        "warning: 2 records left out, since they cannot be read; the newest: this is not a record")
    three[0].write_text("{}")
    assert cli.run(["report"]) == 2
    assert "no record can be read (3 records there)" in capsys.readouterr().err
