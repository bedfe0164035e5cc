"""One pass over a wheel: what it finds, what it says of damage, and what the cache saves."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from elf_files import elf_file, fatbin, make_wheel

from builder.binaries import wheel_facts
from builder.binaries.facts import Symbol, WheelFacts
from builder.binaries.wheel_facts import read_wheel, read_wheels
from builder.locking.findings import FindingCode

FIXTURES = Path(__file__).parents[2] / "fixtures" / "gate"
CUBIN = (FIXTURES / "cuda13-sm_120f.cubin").read_bytes()
LIBRARY = elf_file(needed=["libc.so.6"], defined=["here"], undefined=["there@libc.so.6:GLIBC_2.17"],
                   weak=["here"], sections={".nv_fatbin": fatbin((2, 120, 0x100000), (1, 80, 0))})
MEMBERS = {"thing/__init__.py": b"x = 1\n", "thing/_C.so": LIBRARY, "thing/k.cubin": CUBIN,
           "thing/all.fatbin": fatbin((2, 90, 0)), "thing-1.0.data/scripts/run": b"#!python\n"}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def codes(path: Path) -> list[tuple[str, str]]:
    return [(one.code, one.file) for one in read_wheel(path, digest(path)).damage]


def test_everything_in_a_wheel(tmp_path: Path) -> None:
    told: list[float] = []
    path = make_wheel(tmp_path, MEMBERS)
    facts = read_wheel(path, "ab" * 32, on_progress=told.append)
    assert (facts.file, facts.sha256, facts.name, facts.version) == (
        path.name, "ab" * 32, "thing", "1.0")
    assert [elf.path for elf in facts.elves] == ["thing/_C.so"]
    assert facts.elves[0].defined == (Symbol("here", weak=True),)
    assert [code.name for code in facts.elves[0].cuda] == ["compute_80", "sm_120a"]
    assert [(file, code.name) for file, code in facts.cubins] == [
        ("thing/k.cubin", "sm_120f"), ("thing/all.fatbin", "sm_90")]
    assert "../../../bin/run" in dict(facts.members)
    assert facts.metadata.startswith("Metadata-Version")
    assert (facts.tags, facts.damage) == (("py3-none-any",), ())
    assert facts.unpacked > len(LIBRARY) + len(CUBIN)
    assert 0 < sum(told) < path.stat().st_size


def test_members_have_the_hash_that_record_would_have(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, MEMBERS)
    with zipfile.ZipFile(path) as opened:
        record = opened.read("thing-1.0.dist-info/RECORD").decode()
    hashes = dict(read_wheel(path, digest(path)).members)
    assert f"thing/_C.so,sha256={hashes['thing/_C.so']}," in record


def test_large_files_are_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_wheel(tmp_path, MEMBERS)
    small = read_wheel(path, "")
    monkeypatch.setattr(wheel_facts, "CHUNK_BYTES", 100)
    monkeypatch.setattr(wheel_facts, "IN_MEMORY_BYTES", 150)
    assert read_wheel(path, "", scratch=tmp_path) == small
    assert [path] == list(tmp_path.iterdir()), "nothing is left behind"


def test_damaged_files_inside_a_whole_wheel(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, {
        "thing/cut.so": LIBRARY[:300], "thing/cut.cubin": CUBIN[:2000],
        "thing/fat.so": elf_file(sections={".nv_fatbin": fatbin((2, 120, 0))[:-4]}),
        "thing/cut.fatbin": fatbin((2, 120, 0))[:-4], "thing/_C.so": LIBRARY})
    assert codes(path) == [("elf-damaged", "thing/cut.so"), ("elf-damaged", "thing/cut.cubin"),
                           ("fatbin-damaged", "thing/fat.so"),
                           ("fatbin-damaged", "thing/cut.fatbin")]


def test_a_member_whose_bytes_are_damaged(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, {"thing/a": bytes(range(256)) * 4})
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    assert codes(path) == [("member-unreadable", "thing/a")]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packing_that_may_ask_for_any_memory(tmp_path: Path, method: int) -> None:
    path = make_wheel(tmp_path, {"thing/a": b"x"}, compression=method)
    assert ("member-unreadable", "thing/a") in codes(path)


def test_a_wheel_without_metadata_keeps_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "Some_Thing-2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("some/file.txt", "x")
    facts = read_wheel(path, "")
    assert (facts.name, facts.version) == ("some-thing", "2.0")
    assert [(one.code, one.file) for one in facts.damage] == [
        ("metadata-missing", name) for name in ("METADATA", "WHEEL", "RECORD")]


def test_a_name_that_is_empty(tmp_path: Path) -> None:
    """Found by fuzzing: ``ZipInfo.is_dir`` fails for it."""
    path = make_wheel(tmp_path, {"": b"x"})
    assert ("unsafe-path", "") in codes(path)


def test_a_wheel_that_cannot_be_opened_is_damage_too(tmp_path: Path) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    path.write_bytes(b"<html>not found</html>")
    facts = read_wheel(path, "")
    assert (facts.name, facts.version, facts.damage[0].code) == ("thing", "1.0", "wheel-unreadable")


def test_a_second_run_reads_no_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = make_wheel(tmp_path, MEMBERS)
    two = make_wheel(tmp_path, {"other/a": b"1"}, name="other")
    wheels = [(path, digest(path)) for path in (one, two)]
    first = read_wheels(wheels, tmp_path / "cache")
    assert [facts.name for facts in first] == ["thing", "other"]
    two.write_bytes(make_wheel(tmp_path / "cache", {"other/a": b"2"}, name="other").read_bytes())
    read: list[str] = []

    def watched(path: Path, sha256: str, **rest: object) -> WheelFacts:
        read.append(path.name)
        return read_wheel(path, sha256)

    monkeypatch.setattr(wheel_facts, "read_wheel", watched)
    assert read_wheels(wheels, tmp_path / "cache") == first
    assert read == []
    changed = read_wheels([wheels[0], (two, digest(two))], tmp_path / "cache")
    assert read == [two.name], "a changed wheel costs only itself"
    assert changed[1].members != first[1].members


def test_one_wheel_under_two_names(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, MEMBERS)
    other = tmp_path / "copy-1.0-py3-none-any.whl"
    other.write_bytes(path.read_bytes())
    facts = read_wheels([(path, digest(path)), (other, digest(path))], tmp_path / "cache")
    assert [one.file for one in facts] == [path.name, other.name]


def test_an_interrupt_ends_all_readers(tmp_path: Path) -> None:
    wheels = [(path, digest(path)) for path in (
        make_wheel(tmp_path, {f"thing/{number}": b"x"}, name=f"thing{number}")
        for number in range(8))]

    def interrupt(amount: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_wheels(wheels, tmp_path / "cache", interrupt)


@pytest.mark.parametrize(("path", "body", "fires"), [
    ("evil.pth", b"import os; os.system('x')\n", True),
    ("evil.pth", b"# comment\nfolder\nimport\tos\n", True),
    ("evil.pth", b"\xef\xbb\xbfimport os\n", True),  # Python skips a byte order mark
    ("thing-1.0.data/purelib/evil.pth", b"import os\n", True),
    ("sitecustomize.py", b"", True), ("usercustomize/__init__.py", b"", True),
    ("plain.pth", b"folder\n./other\nimportant\n", False),
    ("thing/weights.pth", b"import os\n", False), ("thing/sitecustomize.py", b"x", False)])
def test_what_runs_whenever_python_starts(tmp_path: Path, path: str, body: bytes, *, fires: bool
                                          ) -> None:
    found = [one for one in read_wheel(make_wheel(tmp_path, {path: body}), "").damage
             if one.code == FindingCode.PTH_RUNS_CODE]
    assert bool(found) is fires


def test_a_pth_file_that_is_too_large_to_be_read_is_told(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel_facts, "TEXT_LIMIT", 1000)
    path = make_wheel(tmp_path, {"evil.pth": b"#" * 1001})
    assert codes(path) == [("pth-runs-code", "evil.pth")]


@pytest.mark.parametrize(("metadata", "version", "damaged"), [
    (b"Name: thing\nVersion: 2.0\n", "2.0", False),
    (b"Name: thing\nVersion: not a version\n", "1.0", True),
    (b"Name: thing\nVersion: " + b"1" * 5000 + b"\n", "1.0", True),
    (b"Name: thing\nVersion: 2.0\n" + b"Requires-Dist: x\n" * 5001, "2.0", True)])
def test_metadata_that_cannot_be_used(tmp_path: Path, metadata: bytes, version: str, *,
                                      damaged: bool) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("thing-1.0.dist-info/METADATA", metadata)
    facts = read_wheel(path, "")
    assert facts.version == version
    assert (FindingCode.METADATA_DAMAGED in {one.code for one in facts.damage}) is damaged


def test_the_symbols_of_a_whole_wheel_are_limited(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel_facts, "MAX_SYMBOLS", 3)
    path = make_wheel(tmp_path, {"a.so": elf_file(defined=["a", "b"]),
                                 "b.so": elf_file(defined=["c", "d"])})
    facts = read_wheel(path, "")
    assert [len(elf.defined) for elf in facts.elves] == [2, 0]
    assert codes(path) == [("elf-damaged", "b.so")]
