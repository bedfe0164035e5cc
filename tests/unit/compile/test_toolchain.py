"""The toolchain's layers: made once, shared, and refused where a wheel has nothing for them."""

from __future__ import annotations

import errno
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from builder.compile.toolchain import Material, layers
from builder.compile.unpacking import Piece
from builder.errors import DiskError, UsageError
from builder.locking.base_lock import LockedDeb
from builder.store.content_store import Store


def material(folder: Path, member: str = "nvidia/cu13/bin/nvcc") -> Material:
    wheel = folder / "nvcc-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(member, "program")
    deb = LockedDeb(name="ccache", version="1", arch="amd64", sha256="a" * 64, size=3,
                    path="pool/x")
    (folder / "ccache.deb").write_bytes(b"deb")
    return Material((("b" * 64, Piece(wheel, "tool")),), ((deb, folder / "ccache.deb"),))


def test_each_wheel_is_a_layer_that_is_made_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    made = layers(material(tmp_path), store)
    with tarfile.open(made[0].path) as tar:
        assert tar.getmember("opt/cuda/bin/nvcc").mode == 0o755
    with tarfile.open(made[1].path) as tar:
        assert "opt/debs/000.deb" in tar.getnames()
    stamps = [layer.path.stat().st_mtime_ns for layer in made]
    assert layers(material(tmp_path), store) == made
    assert [layer.path.stat().st_mtime_ns for layer in made] == stamps


def test_the_digest_names_wheels_roles_and_packages(tmp_path: Path) -> None:
    first = material(tmp_path)
    (sha256, piece), = first.wheels
    other = Material(((sha256, Piece(piece.path, "target")),), first.debs)
    assert first.digest == material(tmp_path).digest
    assert len({first.digest, other.digest, Material(first.wheels, ()).digest}) == 3


def test_a_wheel_of_the_wrong_role_is_refused(tmp_path: Path) -> None:
    wrong = material(tmp_path, "nvidia/cu13/nothing.txt")
    with pytest.raises(UsageError, match="has nothing that a toolchain takes as tool"):
        layers(wrong, Store(tmp_path / "cache"))


def test_a_full_disk_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("builder.compile.toolchain.write_tar", full)
    with pytest.raises(DiskError, match="disk became full while the toolchain"):
        layers(material(tmp_path), Store(tmp_path / "cache"))


@pytest.mark.parametrize("member", ["nvidia/cu13/bin//nvcc", "nvidia/cu13/bin/../nvcc"])
def test_a_wheel_with_a_strange_path_is_named(tmp_path: Path, member: str) -> None:
    with pytest.raises(UsageError, match=r"nvcc-1-py3-none-any\.whl cannot be unpacked") as caught:
        layers(material(tmp_path, member), Store(tmp_path / "cache"))
    assert caught.value.where == "toolchain.requirements"
