"""An image's file system as a base: its libraries, Python, packages and tools, and their limits."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

import pytest
from elf_files import elf_file

from builder.binaries import image_facts
from builder.binaries.facts import BaseFacts
from builder.binaries.image_facts import read_image
from builder.errors import EngineError

LIB = "usr/lib/aarch64-linux-gnu"
STATUS = b"""Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u10

Package: gone
Status: deinstall ok config-files
Version: 1.0

Package: libx1
Status: install ok installed
Version: 1.2
"""
BASE = {
    f"{LIB}/libc.so.6": elf_file(soname="libc.so.6"), f"{LIB}/libx.so.1.2": elf_file(),
    f"{LIB}/python3/deep.so": elf_file(), "usr/bin/python3.11": elf_file(interpreter="/lib/ld.so"),
    "usr/bin/python3.9": elf_file(interpreter="/lib/ld.so"), "usr/bin/gcc": b"#!",
    "usr/local/cuda-13.0/bin/nvcc": b"#!", "usr/share/doc/gcc": b"", f"{LIB}/libtext.so": b"INPUT(",
    "var/lib/dpkg/status": STATUS,
    "var/lib/dpkg/info/libx1.list": f"/lib/aarch64-linux-gnu\n/{LIB[4:]}/libx.so.1.2\n".encode(),
}


def tar(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, data in files.items():
            item = tarfile.TarInfo(path)
            item.size = len(data)
            archive.addfile(item, io.BytesIO(data))
    return stream.getvalue()


def base(data: bytes) -> BaseFacts:
    return read_image(io.BytesIO(data), "slim", "sha256:0", "linux/arm64").base


def test_what_a_base_brings() -> None:
    facts = base(tar(BASE))
    assert [elf.path for elf in facts.libraries] == [
        "/usr/bin/python3.11", "/usr/bin/python3.9", f"/{LIB}/libc.so.6", f"/{LIB}/libx.so.1.2"]
    assert (facts.python, facts.glibc) == ("3.11", "2.36")
    assert facts.packages == (("libc6", "2.36-9+deb12u10"), ("libx1", "1.2"))
    assert facts.owners == ((f"/{LIB}/libx.so.1.2", "libx1"),)
    assert facts.tools == ("gcc", "nvcc")


def test_an_empty_file_system_is_an_empty_base() -> None:
    facts = base(tar({}))
    assert (facts.libraries, facts.python, facts.glibc, facts.tools) == ((), "", "", ())


@pytest.mark.parametrize("data", [b"", b"not a tar" * 200, tar(BASE)[:-12_000]])
def test_a_stream_that_is_cut_off_is_an_error_of_the_engine(data: bytes) -> None:
    with pytest.raises(EngineError) as caught:
        base(data)
    assert caught.value.where == "slim"
    assert "again" in caught.value.next_step


def test_a_path_that_nothing_can_open_is_passed_over() -> None:
    """Names such as .so.so.so… would keep a pattern busy for minutes."""
    assert base(tar({f"usr/lib/{'.so' * 3000}!": elf_file()})).libraries == ()


def test_the_text_of_package_lists_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    found = image_facts._Found
    monkeypatch.setattr(image_facts, "_Found", lambda: found(text_left=20))
    assert base(tar(BASE)).packages == (("libc6", ""),)


@pytest.mark.parametrize(("limit", "said"), [
    ("MAX_FILES", "more than 1 files"), ("MAX_NAMES", "of file names"),
    ("MAX_SYMBOLS", "more than 1 symbols in its libraries")])
def test_an_image_of_endless_files_is_given_up(
        monkeypatch: pytest.MonkeyPatch, limit: str, said: str) -> None:
    monkeypatch.setattr(image_facts, limit, 1)
    library = elf_file(defined=["a", "b"])
    with pytest.raises(EngineError, match=f"this image is not judged: it has .*{said}"):
        base(tar({f"{LIB}/libx.so": library, "opt/y/site-packages/z.so": library}))


def test_a_name_of_gigabytes_is_not_read() -> None:
    item = tarfile.TarInfo("x")
    item.type, item.size = tarfile.GNUTYPE_LONGNAME, 1 << 32
    with pytest.raises(EngineError, match="a header of 4294967296 bytes"):
        base(item.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 12))


def test_a_strange_header_is_damage() -> None:
    item = tarfile.TarInfo("x")
    item.pax_headers = {"GNU.sparse.size": "abc"}
    with pytest.raises(EngineError, match="cannot be read"):
        base(item.tobuf(tarfile.PAX_FORMAT) + bytes(1 << 12))
