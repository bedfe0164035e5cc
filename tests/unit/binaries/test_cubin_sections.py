"""The sections of a cubin, and tables that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.binaries.cubin_sections import sections
from builder.binaries.metered import UnreadableError

CUBIN = (Path(__file__).parents[2] / "fixtures" / "gate" / "cuda13-sm_120a.cubin").read_bytes()


def test_names_and_places() -> None:
    found = {name: (at, size) for name, at, size in sections(CUBIN, 64)}
    at, size = found[b".text.k"]
    assert 0 < at < at + size <= len(CUBIN)
    assert b".nv.compat" in found


def test_names_are_cut() -> None:
    assert b".text" in {name for name, _, _ in sections(CUBIN, 5)}


def test_a_damaged_table() -> None:
    with pytest.raises(UnreadableError, match="damaged"):
        list(sections(CUBIN[:200], 64))
    with pytest.raises(UnreadableError, match="not an ELF"):
        list(sections(b"short", 64))


def test_a_file_without_sections() -> None:
    assert list(sections(CUBIN[:60] + bytes(4), 64)) == []
