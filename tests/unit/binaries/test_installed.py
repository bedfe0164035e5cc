"""A finished image's distributions: their files against RECORD, GPU code, and which Python's."""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Mapping

import pytest
from elf_files import CUDA, elf_file, fatbin, record_of

from builder.binaries.facts import WheelFacts
from builder.binaries.image_facts import ImageFacts, read_image
from builder.gate.closures import judge_image
from builder.gate.hygiene import check_hygiene
from builder.gate.rules import Rules
from builder.locking.findings import Severity

SITE = "opt/venv/lib/python3.11/site-packages"
SYSTEM = "usr/local/lib/python3.12/dist-packages"
CODE = {"thing/a.py": b"a = 1\n", "thing/lib.so": elf_file(soname="lib.so")}


def installed(members: Mapping[str, bytes], *, name: str = "thing", site: str = SITE,
              extra: str = "") -> dict[str, bytes]:
    """Return the files of an installed distribution, with an honest RECORD and ``extra`` rows."""
    info = f"{name}-1.0.dist-info"
    whole = {**members, f"{info}/METADATA": f"Name: {name}\nVersion: 1.0\n".encode(),
             f"{info}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n"}
    whole[f"{info}/RECORD"] = record_of(whole, f"{info}/RECORD") + extra.encode()
    return {f"{site}/{path}": data for path, data in whole.items()}


def image(files: Mapping[str, bytes], links: Mapping[str, str] | None = None,
          hard: Mapping[str, str] | None = None) -> ImageFacts:
    """Return the facts of an image with these files, symbolic links and hard links."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, data in files.items():
            item = tarfile.TarInfo(path)
            item.size = len(data)
            archive.addfile(item, io.BytesIO(data))
        for kind, pairs in ((tarfile.SYMTYPE, links), (tarfile.LNKTYPE, hard)):
            for path, target in (pairs or {}).items():
                item = tarfile.TarInfo(path)
                item.type, item.linkname = kind, target
                archive.addfile(item)
    stream.seek(0)
    return read_image(stream, "x", "sha256:0", "linux/arm64")


def only(found: ImageFacts) -> WheelFacts:
    (wheel,) = found.wheels
    return wheel


def damage(found: ImageFacts) -> list[tuple[str, str]]:
    return [(one.code, one.file) for wheel in found.wheels for one in wheel.damage]


def test_a_whole_distribution_has_its_files_and_their_size() -> None:
    wheel = only(image(installed(CODE)))
    assert (wheel.name, wheel.version, wheel.damage) == ("thing", "1.0", ())
    assert [elf.path for elf in wheel.elves] == ["thing/lib.so"]
    assert wheel.unpacked > sum(map(len, CODE.values()))


def test_what_was_changed_or_deleted_is_found() -> None:
    files = installed(CODE)
    files[f"{SITE}/thing/a.py"] = b"a = 2\n"
    del files[f"{SITE}/thing/lib.so"]
    found = image(files)
    assert damage(found) == [("file-changed", "thing/a.py"), ("file-lost", "thing/lib.so")]
    assert {one.severity for one in check_hygiene(found.wheels, Rules())} == {Severity.WARNING}


def test_a_library_that_was_cut_short_is_an_error() -> None:
    files = installed(CODE)
    files[f"{SITE}/thing/lib.so"] = CODE["thing/lib.so"][:-200]
    found = image(files)
    assert damage(found) == [("file-broken", "thing/lib.so")]
    (finding,) = check_hygiene(found.wheels, Rules())
    assert finding.severity is Severity.ERROR
    assert "again" in finding.next_step


def test_a_library_that_was_published_broken_is_no_change() -> None:
    found = image(installed({"thing/lib.so": CODE["thing/lib.so"][:-200]}))
    assert damage(found) == [("elf-damaged", "thing/lib.so")]


def test_bytecode_and_what_lies_elsewhere_may_be_missing() -> None:
    rows = ("thing/__pycache__/a.cpython-311.pyc,,\n../../../bin/thing,sha256=AAAA,4\n"
            "/etc/thing.conf,,\nthing/link.py,sha256=AAAA,4\n")
    found = image(installed(CODE, extra=rows), links={f"{SITE}/thing/link.py": "a.py"})
    assert damage(found) == []


def test_two_distributions_with_one_path_collide_and_are_not_changed() -> None:
    one, two = (installed({"shared.py": text}, name=name)
                for name, text in (("one", b"1"), ("two", b"2")))
    found = image({**one, **two})
    assert damage(found) == []
    assert [one.code for one in check_hygiene(found.wheels, Rules())] == ["file-collision"]


def test_loose_cubins_and_fat_binaries_are_gpu_code() -> None:
    cubin = struct.pack("<4sBBBBB7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0x41, 8, 2, CUDA, 1, 0, 0,
                        0, 90 << 8 | 8, 64, 0, 0, 0, 0, 0)
    found = image(installed({"flashinfer_cubin/a.cubin": cubin, "x/b.fatbin": fatbin((2, 121, 0))}))
    assert [(path, code.name) for path, code in only(found).cubins] == [
        ("flashinfer_cubin/a.cubin", "sm_90a"), ("x/b.fatbin", "sm_121")]
    report = judge_image("someone/vllm", found)
    assert [one.file for one in report.covered] == ["flashinfer_cubin/*.cubin"]


def test_hard_links_have_what_their_first_name_has() -> None:
    files = installed(CODE)
    lib, first = f"{SITE}/thing/lib.so", f"{SITE}/aaa.so"
    files[first] = files.pop(lib)
    wheel = only(image(files, hard={lib: f"/{first}"}))
    assert [elf.path for elf in wheel.elves] == ["thing/lib.so"]
    assert wheel.damage == ()


def test_all_extensions_for_another_python_are_an_error_and_a_stray_one_a_note() -> None:
    other, own = "thing/_C.cpython-312-aarch64-linux-gnu.so", "thing/_B.abi3.so"
    alone = judge_image("x", image(installed({other: elf_file()})))
    assert [one.code for one in alone.errors] == ["wrong-tags"]
    assert "cpython-312" in alone.errors[0].what
    both = judge_image("x", image(installed({other: elf_file(), own: elf_file()})))
    assert [(one.code, one.severity) for one in both.findings] == [
        ("wrong-extension", Severity.NOTE)]
    right = {f"{SYSTEM}/{other}": elf_file()}
    system = installed({other: right[f"{SYSTEM}/{other}"]}, site=SYSTEM)
    assert judge_image("x", image(system)).findings == ()


def test_the_python_with_the_distributions_is_the_images() -> None:
    tool = installed({}, name="tool", site="usr/lib/python3/dist-packages")
    found = image({**installed(CODE, site=SYSTEM), **installed({}, name="b", site=SYSTEM), **tool,
                   **installed({}, name="b", site="usr/lib/python3/dist-packages")})
    assert (found.python, [wheel.name for wheel in found.wheels]) == ("3.12", ["tool", "b",
                                                                              "thing"])
    venv = image({**installed(CODE), **installed({}, name="b"), **tool})
    assert (venv.python, [wheel.name for wheel in venv.wheels]) == ("3.11", ["b", "thing"])


@pytest.mark.parametrize("record", [
    "", ",,\n\n", "thing/a.py\n", "thing/a.py,md5=AAAA,9\n", '"' + "x" * 200_000])
def test_a_record_that_says_nothing_is_no_fault(record: str) -> None:
    files = installed(CODE)
    files[f"{SITE}/thing-1.0.dist-info/RECORD"] = record.encode()
    assert damage(image(files)) == []
