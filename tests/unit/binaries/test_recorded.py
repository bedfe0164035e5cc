"""RECORD against the members of a wheel."""

from __future__ import annotations

from pathlib import Path

from elf_files import make_wheel

from builder.binaries.recorded import compare
from builder.binaries.wheel_facts import read_wheel


def codes(path: Path) -> list[tuple[str, str]]:
    return [(one.code, one.file) for one in read_wheel(path, "").damage]


def test_an_honest_record_is_not_mentioned() -> None:
    record = "a,sha256=AAAA,1\nb,sha512=xx,1\nx.dist-info/RECORD,,\n"
    members = {"a": "AAAA", "b": "BBBB", "x.dist-info/RECORD": "CCCC"}
    assert list(compare(record, members, members)) == []


def test_what_could_not_be_read_is_there_all_the_same() -> None:
    assert list(compare("a,sha256=AAAA,1\n", {}, {"a"})) == []


def test_a_file_that_does_not_match_record(tmp_path: Path) -> None:
    info = "thing-1.0.dist-info"
    record = (f"thing/a,sha256=AAAA,1\nthing/gone,sha256=BBBB,1\nthing/other,md5=xx,1\n"
              f"{info}/METADATA,,\n{info}/WHEEL,,\n")
    path = make_wheel(tmp_path, {"thing/a": b"1", "thing/b": b"2", "thing/other": b"3"},
                      record=record.encode())
    assert codes(path) == [("record-differs", "thing/a"), ("record-unlisted", "thing/b"),
                           ("record-absent", "thing/gone")]


def test_a_record_that_is_no_table(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, {}, record=b'"a\nb,sha256=x,\n' + b"x" * 200_000 + b",")
    assert ("record-damaged", "RECORD") in codes(path)
