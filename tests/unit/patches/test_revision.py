"""A patched distribution's own name: version, METADATA, RECORD."""

from __future__ import annotations

from pathlib import Path

import pytest
from patch_wheels import locked, make_wheel

from builder.errors import PatchError
from builder.locking.lock import Lock
from builder.patches.apply import Blob
from builder.patches.revision import Revision, as_patched, patched_version


@pytest.fixture
def revision(tmp_path: Path) -> Revision:
    wheel = locked(make_wheel(tmp_path, {"vllm/a.py": b"x"}))
    return Revision(wheel, "1.0+sy.7", {"vllm/a.py": Blob(b"y")}, {"patches": []})


def test_paths_of_metadata_follow_the_version(revision: Revision) -> None:
    assert revision.file == "vllm-1.0+sy.7-py3-none-any.whl"
    assert revision.renamed("vllm-1.0.dist-info/METADATA") == "vllm-1.0+sy.7.dist-info/METADATA"
    assert revision.renamed("vllm-1.0.data/scripts/x") == "vllm-1.0+sy.7.data/scripts/x"
    assert revision.renamed("vllm/x.dist-info/y") == "vllm/x.dist-info/y"


def test_only_the_version_field_of_the_header_changes(revision: Revision) -> None:
    text = b"Metadata-Version: 2.1\nName: vllm\nVersion: 1.0\n\nVersion: in the text\n"
    assert revision.metadata(text) == text.replace(b"Version: 1.0\n", b"Version: 1.0+sy.7\n")
    with pytest.raises(PatchError, match="no version"):
        revision.metadata(b"Name: vllm\n\nVersion: 1.0\n")


def test_record_has_the_hashes_of_what_is_really_there(revision: Revision) -> None:
    record = [("vllm/a.py", "sha256=old", "1"), ("vllm/gone.py", "sha256=g", "1"),
              ("vllm-1.0.dist-info/RECORD", "", "")]
    rows = {path: (digest, size) for path, digest, size in revision.rows(
        record, {"vllm/a.py": b"yy"}, frozenset({"vllm/gone.py"}))}
    assert list(rows) == ["vllm/a.py"]
    assert rows["vllm/a.py"][0] != "sha256=old"
    assert rows["vllm/a.py"][1] == "2"


def test_the_key_depends_on_bytes_modes_and_version(revision: Revision) -> None:
    def changed(**values: object) -> list[object]:
        fields = {"wheel": revision.wheel, "version": revision.version,
                  "changes": revision.changes, "provenance": revision.provenance}
        return Revision(**{**fields, **values}).key  # type: ignore[arg-type]

    assert changed() == revision.key
    for other in ({"version": "1.0+sy.8"}, {"changes": {"vllm/a.py": Blob(b"z")}},
                  {"changes": {"vllm/a.py": Blob(b"y", executable=True)}},
                  {"changes": {"vllm/a.py": None}}, {"provenance": {"patches": [1]}}):
        assert changed(**other) != revision.key


def test_a_deletion_needs_another_way_than_a_layer(revision: Revision) -> None:
    assert not revision.deletes
    assert Revision(revision.wheel, "1", {"vllm/a.py": None}, {}).deletes


@pytest.mark.parametrize(("version", "tags", "patched"), [
    ("1.0", ("7",), "1.0+sy.7"), ("1.0+cu130", ("7", "revert.8"), "1.0+cu130.sy.7.revert.8"),
    ("1.0", ("My Fix!",), "1.0+sy.my.fix"), ("1.0", (), "1.0+sy")])
def test_the_patches_stand_in_the_local_version(
        version: str, tags: tuple[str, ...], patched: str) -> None:
    assert patched_version(version, tags) == patched


@pytest.mark.parametrize(("version", "good"), [
    ("1.0+sy.7", True), ("1.0+lean.sm121", True), ("1.0+sy.7.lean.sm121", True),
    ("1.0", False), ("1.0.1", False), ("1.0.post1+sy.7", False), ("2.0+sy.7", False),
])
def test_a_label_may_only_add_to_the_local_part_of_the_locked_version(
        tmp_path: Path, version: str, good: bool) -> None:
    wheel = locked(make_wheel(tmp_path, {"vllm/a.py": b"x"}))
    lock = Lock(cell="c", intent="i", python="3.11", platform="p", wheels=(wheel,))
    labels = {"org.sparkyard.patched.vllm": version}
    if good:
        assert as_patched(lock, labels).wheels[0].version == version
    else:
        with pytest.raises(PatchError, match=r"the lock has 1\.0"):
            as_patched(lock, labels)
