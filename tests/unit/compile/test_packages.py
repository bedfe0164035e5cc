"""Debian packages of a toolchain: locked beside the bases, and read back as written."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.bases.state import load_slim_recipe
from builder.compile import packages
from builder.compile.packages import Toolchain, headers, load, locked, write
from builder.errors import LockError
from builder.locking.base_lock import LockedBase, LockedDeb, load_bases
from builder.locking.sums import SUMS

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


def test_an_edited_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / SUMS).write_text("")
    path = tmp_path / packages.FILE
    write(path, [Toolchain(base=HOST.image_id, asked=("ccache",), packages=(deb("ccache"),))])
    assert load(path)
    path.write_text(path.read_text().replace("size = 1", "size = 2"))
    with pytest.raises(LockError, match="toolchains' lock was edited by hand"):
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


GOOD = (f'[[toolchain]]\nbase = "{HOST.image_id}"\nasked = ["ccache"]\npackages = [\n'
        f'  {{ name = "a", version = "1", arch = "amd64", sha256 = "{"a" * 64}", size = 1, '
        'path = "pool/a" },\n'
        f'  {{ name = "b", version = "1", arch = "amd64", sha256 = "{"b" * 64}", size = 1, '
        'path = "pool/b" },\n]\n')
A, B = (line for line in GOOD.splitlines() if "version" in line)


@pytest.mark.parametrize(("before", "after", "said"), [
    (f'sha256 = "{"a" * 64}"', 'sha256 = ""', "a: it needs a sha256"),
    ("size = 1", "size = 0", "a: it needs a sha256, a path and a size"),
    (A, f"{A}\n{A}", "the package a amd64 is there twice"),
    (f"{A}\n{B}", f"{B}\n{A}", "not sorted by name"),
    (GOOD, GOOD + GOOD, f"ccache for {HOST.image_id} is there twice"),
    (GOOD, GOOD + GOOD.replace("ccache", "a"), "not sorted by base"),
    ('path = "pool/a"', 'path = "a b"', "packages.0.path"),
    (HOST.image_id, "x", "toolchain.0.base")])
def test_each_edit_of_a_toolchain_is_refused_by_name(tmp_path: Path, before: str, after: str,
                                                     said: str) -> None:
    path = tmp_path / "toolchains.toml"
    path.write_text(GOOD)
    assert len(load(path)) == 1
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(LockError) as caught:
        load(path)
    assert said in str(caught.value)
