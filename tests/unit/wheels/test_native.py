"""The compiled part of patches on a source archive."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from compiled_extension import SOURCES, code, make_sources
from patch_wheels import diff

from builder.errors import PatchError
from builder.patches.apply import Blob
from builder.patches.status import Candidate, Standing
from builder.tarball import MAX_HEADER
from builder.wheels.native import compiled_files, native_patches, read_sources

ANSWER = diff("csrc/answer.c", code("_answer", 41), code("_answer", 42))
PYTHON = diff("spam/__init__.py", "", "# changed\n")


def candidate(data: bytes | None, number: int = 1, **changed: object) -> Candidate:
    return Candidate(f"owner/spam#{number}", str(number), data, **changed)  # type: ignore[arg-type]


def test_a_patch_changes_the_sources(tmp_path: Path) -> None:
    found = native_patches(make_sources(tmp_path), [candidate(ANSWER + PYTHON)])
    assert set(found.changes) == {"csrc/answer.c"}
    assert found.changes["csrc/answer.c"] == Blob(code("_answer", 42).encode())
    assert [(each.tag, each.files) for each in found.applied] == [("1", ("csrc/answer.c",))]


def test_patches_of_python_alone_and_without_bytes_are_no_part_of_it(tmp_path: Path) -> None:
    series = [candidate(PYTHON), candidate(None, 2)]
    assert native_patches(make_sources(tmp_path), series).verdicts == ()
    assert compiled_files(candidate(None)) == ()


def test_series_are_applied_in_order(tmp_path: Path) -> None:
    second = diff("csrc/answer.c", code("_answer", 42), code("_answer", 43))
    found = native_patches(make_sources(tmp_path), [candidate(ANSWER), candidate(second, 2)])
    assert found.changes["csrc/answer.c"] == Blob(code("_answer", 43).encode())
    assert [verdict.standing for verdict in found.verdicts] == [Standing.APPLIES] * 2


def test_a_new_file_and_one_that_is_upstream(tmp_path: Path) -> None:
    sources = make_sources(tmp_path, {**SOURCES, "csrc/answer.c": code("_answer", 42)})
    new = diff("csrc/new.h", None, "// new\n")
    found = native_patches(sources, [candidate(ANSWER), candidate(new, 2)])
    assert [verdict.standing for verdict in found.verdicts] == [
        Standing.UPSTREAM, Standing.APPLIES]
    assert list(found.changes) == ["csrc/new.h"]


def test_a_required_patch_that_does_not_apply_stops(tmp_path: Path) -> None:
    wrong = diff("csrc/answer.c", code("_answer", 1), code("_answer", 2))
    with pytest.raises(PatchError, match="does not apply to the sources"):
        native_patches(make_sources(tmp_path), [candidate(wrong)])
    found = native_patches(make_sources(tmp_path), [candidate(wrong, required=False)])
    assert found.changes == {}
    assert found.verdicts[0].standing is Standing.CONFLICT


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    path = make_sources(tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(PatchError, match="cannot be read"):
        read_sources(path, frozenset({"csrc/answer.c"}))
    path.write_bytes(b"no archive")
    with pytest.raises(PatchError, match="cannot be read"):
        read_sources(path, frozenset())


@pytest.mark.parametrize("headers", [
    {"GNU.sparse.size": "abc"}, {"GNU.sparse.map": "x,y"},
    {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "x"},
    {"comment": "x" * (MAX_HEADER + 1)}])
def test_an_archive_with_strange_headers_is_told_as_one(
        tmp_path: Path, headers: dict[str, str]) -> None:
    path = tmp_path / "spam-1.0.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        item = tarfile.TarInfo("spam-1.0/x")
        item.pax_headers = headers
        archive.addfile(item)
    with pytest.raises(PatchError, match="cannot be read"):
        read_sources(path, frozenset())
