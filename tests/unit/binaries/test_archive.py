"""Wheels that must not be inflated, and members that must not be installed."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest
from elf_files import make_wheel

from builder.binaries import archive
from builder.binaries.archive import (
    UnsafeError,
    compare_record,
    installed_path,
    misplaced,
    open_archive,
)
from builder.binaries.facts import Damage
from builder.binaries.wheel_facts import read_wheel
from builder.locking.findings import FindingCode


def damage_of(path: Path) -> Damage:
    with pytest.raises(UnsafeError) as caught, open_archive(path):
        pass
    return caught.value.damage


def test_an_honest_wheel_opens(tmp_path: Path) -> None:
    with open_archive(make_wheel(tmp_path, {"thing/__init__.py": b"x = 1\n"})) as opened:
        assert len(opened.namelist()) == 4
        assert list(misplaced(opened)) == []


@pytest.mark.parametrize("data", [b"", b"PK\5\6", b"not a zip" * 100, b"PK\5\6" + bytes(17)])
def test_other_files_are_unreadable(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(data)
    assert damage_of(path).code == "wheel-unreadable"


def test_a_truncated_wheel(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, {"thing/data": bytes(5000)})
    path.write_bytes(path.read_bytes()[:-30])
    assert damage_of(path) == Damage(FindingCode.WHEEL_UNREADABLE, "",
                                     "this is not a complete zip file: File is not a zip file")


@pytest.mark.parametrize("form", ["plain", "zip64"])
def test_a_directory_that_would_fill_the_memory(tmp_path: Path, form: str) -> None:
    path = make_wheel(tmp_path, {})
    data = path.read_bytes()
    if form == "zip64":
        record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, 1 << 40, 0)
        locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(data) - 22, 1)
        data = data[:-22] + record + locator + data[-22:-10] + b"\xff" * 4 + data[-6:]
    else:
        data = data[:-10] + struct.pack("<L", 1 << 30) + data[-6:]
    path.write_bytes(data)
    assert damage_of(path).code == FindingCode.WHEEL_UNREADABLE


def test_a_directory_that_is_as_large_as_it_says(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second, smaller length in the archive does not help: zipfile's own read is limited."""
    path = make_wheel(tmp_path, {"thing/a": b"PK\6\6" + bytes(60)}, compression=0)
    monkeypatch.setattr(archive, "MAX_DIRECTORY_BYTES", 100)
    assert "a directory of 2" in damage_of(path).detail


def test_more_members_than_any_wheel_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 4)
    with open_archive(make_wheel(tmp_path, {"thing/a": b""})):
        pass
    damage = damage_of(make_wheel(tmp_path, {"thing/a": b"", "thing/b": b""}))
    assert (damage.code, damage.detail) == (FindingCode.ZIP_BOMB, "it has 5 members")


def test_a_large_wheel_may_not_unpack_without_limit(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED", 1 << 20)
    assert damage_of(make_wheel(tmp_path, {"thing/a": bytes(3 << 20)})).code == "zip-bomb"


def test_a_zip_bomb_is_not_inflated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "FREE_BYTES", 1 << 20)
    damage = damage_of(make_wheel(tmp_path, {"thing/zeros": bytes(3 << 20)}))
    assert damage.code == "zip-bomb"
    assert "would unpack to 31" in damage.detail


def test_a_small_wheel_may_be_mostly_zeros(tmp_path: Path) -> None:
    with open_archive(make_wheel(tmp_path, {"thing/zeros": bytes(3 << 20)})) as opened:
        assert max(item.file_size for item in opened.infolist()) == 3 << 20


def test_members_that_share_their_bytes(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, {"thing/a": b"a" * 50, "thing/b": b"b" * 50})
    data = bytearray(path.read_bytes())
    second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 4)
    data[second + 42:second + 46] = bytes(4)  # where the first one begins
    path.write_bytes(data)
    assert damage_of(path).code == "overlapping-members"


def found(path: Path) -> list[tuple[str, str]]:
    with open_archive(path) as opened:
        return [(one.code, one.file) for one in misplaced(opened)]


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "a//b", "a/.wh.b"])
def test_paths_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    assert found(make_wheel(tmp_path, {name: b""})) == [("unsafe-path", name)]


def test_a_path_that_nothing_can_open(tmp_path: Path) -> None:
    name = "a/" * 2048 + "b"
    assert found(make_wheel(tmp_path, {name: b""})) == [("unsafe-path", name[:4096])]
    assert found(make_wheel(tmp_path, {name[2:]: b""})) == []


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_one_name_for_two_members(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, {"thing/a": b"1"})
    with zipfile.ZipFile(path, "a") as opened:
        opened.writestr("thing/a", b"2")
    assert found(path) == [("duplicate-member", "thing/a")]


@pytest.mark.parametrize(("mode", "code"), [
    (0o104755, "set-id"), (0o102755, "set-id"), (0o120777, "not-a-file"), (0o020644, "not-a-file"),
])
def test_modes_that_no_wheel_needs(tmp_path: Path, mode: int, code: str) -> None:
    assert found(make_wheel(tmp_path, {"thing/a": b"x"}, modes={"thing/a": mode})) == [
        (code, "thing/a")]


@pytest.mark.parametrize("mode", [0o100755, 0o040755, 0o644, 0])
def test_modes_of_honest_wheels(tmp_path: Path, mode: int) -> None:
    assert found(make_wheel(tmp_path, {"thing/a": b"x"}, modes={"thing/a": mode})) == []


@pytest.mark.parametrize(("member", "path"), [
    ("torch/lib/libc10.so", "torch/lib/libc10.so"),
    ("thing-1.0.data/purelib/thing/a.py", "thing/a.py"),
    ("thing-1.0.data/platlib/thing/_c.so", "thing/_c.so"),
    ("thing-1.0.data/scripts/run", "../../../bin/run"),
    ("thing-1.0.data/data/share/x", "../../../share/x"),
    ("thing-1.0.data/headers/x.h", "../../../include/site/thing/x.h"),
    ("thing-1.0.data/else/x", "thing-1.0.data/else/x"),
])
def test_where_members_are_installed(member: str, path: str) -> None:
    assert installed_path(member) == path


def codes_of(path: Path) -> list[tuple[str, str]]:
    return [(one.code, one.file) for one in read_wheel(path, "").damage]


def test_an_honest_record_is_not_mentioned() -> None:
    record = "a,sha256=AAAA,1\nb,sha512=xx,1\nx.dist-info/RECORD,,\n"
    members = {"a": "AAAA", "b": "BBBB", "x.dist-info/RECORD": "CCCC"}
    assert list(compare_record(record, members, members)) == []


def test_what_could_not_be_read_is_there_all_the_same() -> None:
    assert list(compare_record("a,sha256=AAAA,1\n", {}, {"a"})) == []


def test_a_file_that_does_not_match_record(tmp_path: Path) -> None:
    info = "thing-1.0.dist-info"
    record = (f"thing/a,sha256=AAAA,1\nthing/gone,sha256=BBBB,1\nthing/other,md5=xx,1\n"
              f"{info}/METADATA,,\n{info}/WHEEL,,\n")
    path = make_wheel(tmp_path, {"thing/a": b"1", "thing/b": b"2", "thing/other": b"3"},
                      record=record.encode())
    assert codes_of(path) == [("record-differs", "thing/a"), ("record-unlisted", "thing/b"),
                           ("record-absent", "thing/gone")]


def test_a_record_that_is_no_table(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, {}, record=b'"a\nb,sha256=x,\n' + b"x" * 200_000 + b",")
    assert ("record-damaged", "RECORD") in codes_of(path)
