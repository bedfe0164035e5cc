"""Debian packages of a toolchain: locked beside the bases, and read back as written."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.bases.state import load_slim_recipe
from builder.compile import packages
from builder.compile.packages import Toolchain, headers, load, locked, write
from builder.errors import LockError
from builder.locking.base_lock import LockedBase, LockedDeb, load_bases

ROOT = Path(__file__).parents[3]
BASES = load_bases(ROOT / "locks" / "bases.toml")
HOST = BASES["slim", "linux/amd64"]


def deb(name: str) -> LockedDeb:
    return LockedDeb(name=name, version="1", arch="amd64", sha256="a" * 64, size=1, path="pool/x")


def test_what_is_locked_needs_no_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "toolchains.toml"
    write(path, [Toolchain(base=HOST.image_id, asked=("ccache",), packages=(deb("ccache"),))])
    monkeypatch.setattr(packages, "resolve_debs", lambda *_, **__: pytest.fail("asked"))
    assert [one.name for one in locked(path, HOST, load_slim_recipe(ROOT), ["ccache"])] == [
        "ccache"]


def test_what_is_not_locked_is_resolved_and_written(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "toolchains.toml"
    write(path, [Toolchain(base="sha256:" + "0" * 64, asked=("x",), packages=())])
    answer = (deb("ccache"), deb("g++"))  # the base has g++
    monkeypatch.setattr(packages, "resolve_debs", lambda *_, **__: answer)
    assert [one.name for one in locked(path, HOST, load_slim_recipe(ROOT), ["ccache"])] == [
        "ccache"]
    assert {each.asked for each in load(path)} == {("x",), ("ccache",)}


def test_a_damaged_lock_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "toolchains.toml"
    path.write_text("[[toolchain]]\nbase = 1\n")
    with pytest.raises(LockError, match="toolchains' lock is damaged"):
        load(path)


def test_the_headers_of_the_targets_python_are_its_bases() -> None:
    target = BASES["slim", "linux/arm64"]
    assert headers(target).arch == "arm64"
    without = LockedBase.model_validate(target.model_dump() | {"packages": ()})
    with pytest.raises(LockError, match=r"has no libpython3\.11-dev"):
        headers(without)


def test_the_committed_lock_is_as_it_is_written(tmp_path: Path) -> None:
    committed = ROOT / "locks" / packages.FILE
    copy = tmp_path / packages.FILE
    write(copy, load(committed))
    assert copy.read_text() == committed.read_text()
    assert {each.base for each in load(committed)} <= {base.image_id for base in BASES.values()}
