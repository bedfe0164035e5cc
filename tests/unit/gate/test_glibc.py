"""What a wheel's tag promises of glibc, and what its files need."""

from __future__ import annotations

import pytest
from gate_facts import a_wheel

from builder.binaries.facts import ElfFacts
from builder.gate.glibc import check_glibc, needed_glibc, promised_glibc

NVSHMEM = "py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64"


def needs(*versions: str, kind: str = "dyn") -> ElfFacts:
    return ElfFacts("a/lib.so", "aarch64", needed_versions=(("libc.so.6", versions),), kind=kind)


def codes(tag: str, elf: ElfFacts) -> list[str]:
    return [found.code.value for found in check_glibc([a_wheel("w", tag=tag, elves=(elf,))])]


def test_a_library_that_needs_more_than_the_tag_promises() -> None:
    assert codes(NVSHMEM, needs("GLIBC_2.17", "GLIBC_2.29")) == ["wrong-glibc-tag"]
    (found,) = check_glibc([a_wheel("w", tag=NVSHMEM, elves=(needs("GLIBC_2.29"),))])
    assert (found.expected, found.found) == ("glibc 2.17 or older", "glibc 2.29")


def test_a_library_that_keeps_the_promise() -> None:
    assert codes("py3-none-manylinux_2_31_aarch64", needs("GLIBC_2.29", "GCC_12.0.0")) == []


def test_files_that_nothing_loads_promise_nothing() -> None:
    assert codes(NVSHMEM, needs("GLIBC_2.38", kind="debug")) == []
    assert codes("py3-none-any", needs("GLIBC_2.38")) == []


@pytest.mark.parametrize(("file", "version"), [
    ("w-1-py3-none-manylinux_2_27_aarch64.manylinux_2_28_aarch64.whl", (2, 28)),
    ("w-1-py3-none-manylinux1_x86_64.whl", (2, 5)), ("w-1-py3-none-any.whl", None),
    ("vllm-0.20.2.dist-info", None)])
def test_what_a_name_promises(file: str, version: tuple[int, int] | None) -> None:
    assert promised_glibc(file) == version


def test_the_newest_version_counts_by_number() -> None:
    assert needed_glibc(needs("GLIBC_2.9", "GLIBC_2.17", "GLIBC_2.3.4", "GLIBC_PRIVATE",
                              f"GLIBC_2.{'9' * 5000}")) == (2, 17)
