"""GPU code that only refuses to run: NVIDIA's own tools made both kinds of fixture."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import zstandard

from builder.binaries import stubs
from builder.binaries.facts import Form, Stub
from builder.binaries.fatbin import read_fatbin
from builder.binaries.metered import Metered

FIXTURES = Path(__file__).parents[2] / "fixtures" / "gate"


def found_in(name: str, *, look: bool = True) -> tuple[Stub, ...]:
    data = (FIXTURES / name).read_bytes()
    return read_fatbin(Metered(io.BytesIO(data)), 0, len(data), look=look).stubs


def test_a_kernel_that_only_prints_and_traps() -> None:
    assert found_in("refuses.fatbin") == (
        Stub("sm_121a", "This kernel only supports sm120.", "guarded", 1),)


def test_a_kernel_that_also_works_is_none() -> None:
    assert found_in("refuses-and-works.fatbin") == ()


def test_code_without_a_message_and_code_that_is_not_looked_into() -> None:
    assert found_in("kernel.fatbin") == ()
    assert found_in("refuses.fatbin", look=False) == ()


@pytest.mark.parametrize(("form", "arch", "size", "wanted"), [
    (Form.SASS, 121, 100, True), (Form.SASS, 120, 100, True), (Form.SASS, 100, 100, False),
    (Form.PTX, 121, 100, False), (Form.SASS, 121, stubs.MAX_PACKED + 1, False)])
def test_what_is_looked_into(form: Form, arch: int, size: int, *, wanted: bool) -> None:
    assert stubs.Looking().wants(form, arch, size) is wanted


def test_what_cannot_be_unpacked_is_passed_over() -> None:
    looking = stubs.Looking()
    looking.look("sm_121", b"no zstd", stubs.ZSTD)
    looking.look("sm_121", b"LZ4", 0x2000)
    looking.look("sm_121", b"This kernel only supports sm120, and no ELF file", 0)
    assert looking.stubs == ()


def test_what_is_unpacked_of_a_file_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stubs, "MAX_UNPACKED_IN_ALL", 100)
    looking = stubs.Looking()
    looking.look("sm_121", bytes(60), 0)
    assert looking.wants(Form.SASS, 121, 1)
    looking.look("sm_121", zstandard.ZstdCompressor().compress(bytes(60)), stubs.ZSTD)
    assert not looking.wants(Form.SASS, 121, 1)


def test_a_cubin_that_is_cut_anywhere_is_no_stub_and_no_crash() -> None:
    (stub,) = found_in("refuses.fatbin")
    cubin = b"\x7fELF\x02\x01" + b"This kernel only supports sm120.".ljust(400, b"\xff")
    for end in range(0, len(cubin), 7):
        assert stubs.stub_of(stub.code, cubin[:end]) is None


def test_the_stubs_of_a_file_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stubs, "MAX_STUBS", 1)
    looking = stubs.Looking()
    looking.stubs = (Stub("sm_121", "m", "k", 1),)
    assert not looking.wants(Form.SASS, 121, 1)
