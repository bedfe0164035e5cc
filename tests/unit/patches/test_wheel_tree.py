"""A wheel's sources as a tree: what a patch may read, and what it may not."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from patch_wheels import encrypted, make_wheel

from builder.errors import PatchError
from builder.patches import wheel_tree
from builder.patches.wheel_tree import open_tree


def test_members_are_read_and_metadata_is_not_part_of_it(tmp_path: Path) -> None:
    with open_tree(make_wheel(tmp_path, {"vllm/a/b.py": b"x", "top.py": b""})) as tree:
        blob = tree.read("vllm/a/b.py")
        assert blob is not None
        assert (blob.data, blob.executable) == (b"x", False)
        assert tree.read("vllm/none.py") is None
        assert tree.read("vllm-1.0.dist-info/METADATA") is None
        assert tree.packages == {"vllm"}
        assert [tree.is_folder(path) for path in ("vllm", "vllm/a", "vllm/a/b.py")] == [
            True, True, False]


def test_an_executable_member_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w") as archive:
        item = zipfile.ZipInfo("vllm/run.sh")
        item.external_attr = 0o100755 << 16
        archive.writestr(item, b"#!/bin/sh")
    with open_tree(path) as tree:
        blob = tree.read("vllm/run.sh")
        assert blob is not None
        assert blob.executable


def test_a_member_beyond_measure_is_refused_before_it_is_read(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel_tree, "MEMBER_LIMIT", 10)
    with open_tree(make_wheel(tmp_path, {"vllm/a.py": b"x" * 11})) as tree, \
            pytest.raises(PatchError, match="too large"):
        tree.read("vllm/a.py")


@pytest.mark.parametrize("data", [b"", b"no zip file", b"PK\x05\x06"])
def test_what_is_no_zip_file_is_an_error_with_the_next_step(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "vllm-1.0-py3-none-any.whl"
    path.write_bytes(data)
    with pytest.raises(PatchError, match="the wheel cannot be read") as caught, open_tree(path):
        pass
    assert "./nox -s fetch" in caught.value.next_step


def test_an_encrypted_member_is_told_as_damage(tmp_path: Path) -> None:
    wheel = encrypted(make_wheel(tmp_path, {"spam.py": b"x = 1"}, "spam"))
    with pytest.raises(PatchError, match="the wheel cannot be read"), open_tree(wheel) as tree:
        tree.read("spam.py")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_member_is_named_however_it_is_compressed(tmp_path: Path, method: int) -> None:
    wheel, text = tmp_path / "x.whl", bytes(range(256)) * 40
    with zipfile.ZipFile(wheel, "w", method) as archive:
        archive.writestr("spam.py", text)
        start = archive.getinfo("spam.py").header_offset + 30 + len("spam.py")
        size = archive.getinfo("spam.py").compress_size
    data = bytearray(wheel.read_bytes())
    data[start + 12:start + size] = b"\xff" * (size - 12)
    wheel.write_bytes(data)
    with pytest.raises(PatchError, match="the wheel cannot be read"), open_tree(wheel) as tree:
        tree.read("spam.py")
