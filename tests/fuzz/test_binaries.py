"""Damaged bytes: the gate's readers end in a fact or in their one error, within memory and time.

What fails is shrunk by hypothesis, printed and kept in its database; it belongs into the unit tests
as a case.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from damaged_bytes import FUZZ, damaged, within_bounds
from elf_files import elf_file, fatbin, make_wheel
from hypothesis import example, given
from hypothesis import strategies as st

from builder.binaries.cubin import read_cubin
from builder.binaries.elf import read_elf
from builder.binaries.facts import WheelFacts
from builder.binaries.fatbin import read_fatbin
from builder.binaries.image_facts import read_image
from builder.binaries.metered import Metered, UnreadableError
from builder.binaries.wheel_facts import read_wheel
from builder.errors import EngineError
from builder.gate.closures import judge_image
from builder.gate.judge import Request, judge
from builder.report.gate import sarif

FIXTURES = Path(__file__).parents[1] / "fixtures" / "gate"
LIBRARY = elf_file(
    needed=["libc.so.6", "libx.so"], soname="libme.so.1", rpath="$ORIGIN/x:/y", weak=["w"],
    interpreter="/lib/ld.so", defined=["a", "b@ME_1"],
    undefined=["u", "w", "v@libc.so.6:GLIBC_2.17", "z@libx.so:X_1"],
    sections={".nv_fatbin": fatbin((2, 120, 0x100011), (1, 75, 0x11))})
GPU_CODE = tuple(path.read_bytes() for path in sorted(FIXTURES.iterdir())
                 if path.suffix in (".cubin", ".fatbin"))
MEMBERS = {"thing/_C.abi3.so": LIBRARY, "thing/k.cubin": GPU_CODE[0], "thing/a.py": b"x = 1\n" * 9,
           "thing.pth": b"folder\n"}
REQUEST = Request("fuzz", "3.11", "aarch64", "sm_121", "2.36")


def wheels() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return [make_wheel(Path(folder), MEMBERS, compression=method,
                           requires=("a[x]>=1", 'b; extra == "y"')).read_bytes()
                for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)]


def image() -> bytes:
    site = "opt/venv/lib/python3.11/site-packages"
    stream = io.BytesIO()
    with (tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=stream, mode="w") as tar,
          zipfile.ZipFile(make_wheel(Path(folder), MEMBERS)) as wheel):
        for name in wheel.namelist():
            item = tarfile.TarInfo(f"{site}/{name}")
            item.size = len(wheel.read(name))
            tar.addfile(item, io.BytesIO(wheel.read(name)))
    return stream.getvalue()


def judged(facts: WheelFacts) -> None:
    """Judge a wheel and write the report: damaged facts must not end either."""
    assert facts.name
    report = judge(REQUEST, [facts], None)
    sarif([report])
    judge(Request("fuzz", "3.11", "aarch64", None, "", whole=False), [facts], None)


def test_the_originals_are_whole() -> None:
    assert len(GPU_CODE) > 5
    assert read_elf(LIBRARY, "x").damage == ()


@FUZZ
@given(damaged([LIBRARY, Path("/bin/sh").resolve().read_bytes()]))
def test_elf_files(data: bytes) -> None:
    with within_bounds(), suppress(UnreadableError):
        read_elf(data, "x.so")


@FUZZ
@given(damaged(GPU_CODE))
def test_fat_binaries_and_cubins(data: bytes) -> None:
    with within_bounds():
        read_fatbin(Metered(io.BytesIO(data)), 0, len(data), look=True)
        with suppress(UnreadableError):
            read_cubin(data)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@FUZZ
@given(damaged(wheels()))
def test_wheels(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "thing-1.0-py3-none-any.whl"
        path.write_bytes(data)
        with within_bounds():
            judged(read_wheel(path, ""))
        assert list(Path(folder).iterdir()) == [path]


TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
FIELDS = st.sampled_from(("Name", "Version", "Requires-Dist", "Requires-Python", "Tag", "", "X"))
REQUIREMENTS = st.builds(
    "{0}[{1}]{2}{3}; {4} {5} '{6}'".format, st.sampled_from(("a", "thing", "")), TEXT,
    st.sampled_from((">=", "==", "~=", "===", "@")), TEXT,
    st.sampled_from(("extra", "python_version", "sys_platform", "nothing")),
    st.sampled_from(("==", "<", "in", "~=", "===")), TEXT)
METADATA = st.lists(st.one_of(TEXT, st.builds("{}: {}".format, FIELDS,
                                              st.one_of(TEXT, REQUIREMENTS))), max_size=20)
RECORD = st.lists(st.one_of(TEXT, st.builds(
    "{},{}={},{}".format, st.one_of(st.sampled_from(sorted(MEMBERS)), TEXT),
    st.sampled_from(("sha256", "md5", "")), TEXT, TEXT)), max_size=20)


@FUZZ
@given(METADATA, RECORD)
@example(["Version: " + "9" * 5000], [])
@example(["Requires-Dist: a; " + "(" * 5000], ['"' + "x" * 200_000])
@example(["Requires-Dist: a; platform_system ~= 'x y'", "Name: =?utf-8?q?=FF?="], ["a,sha256=\0"])
def test_metadata_and_record(metadata: list[str], record: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "thing-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as opened:
            for name, lines in (("METADATA", metadata), ("WHEEL", metadata), ("RECORD", record)):
                opened.writestr(f"thing-1.0.dist-info/{name}", "\n".join(lines))
        with within_bounds():
            judged(read_wheel(path, ""))


@FUZZ
@given(damaged([image()]))
def test_images(data: bytes) -> None:
    with within_bounds(), suppress(EngineError):
        facts = read_image(io.BytesIO(data), "x", "sha256:0", "linux/arm64")
        if facts.wheels:
            judge_image("x", facts)
