"""A tree into a tar: the same bytes whatever the order and the hour, and nothing left over."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from builder.debian.rootfs_tar import left_out, write_rootfs
from builder.errors import EngineError

EPOCH = 1_000_000_000


def keep_all(path: str) -> bool:
    return left_out(path, (), ())


def make_tree(root: Path, names: list[str]) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def names(tar: Path) -> list[str]:
    with tarfile.open(tar) as archive:
        return archive.getnames()


def test_order_and_hour_do_not_matter(tmp_path: Path) -> None:
    one = make_tree(tmp_path / "one", ["usr/b", "usr/a", "etc/c"])
    two = make_tree(tmp_path / "two", ["etc/c", "usr/a", "usr/b"])
    os.utime(two / "etc/c", (EPOCH * 2, EPOCH * 2))
    first = write_rootfs(one, tmp_path / "1.tar", EPOCH, keep_all)
    second = write_rootfs(two, tmp_path / "2.tar", EPOCH, keep_all)
    assert first.digest == second.digest
    assert first.size == first.path.stat().st_size
    assert names(first.path) == ["etc", "etc/c", "usr", "usr/a", "usr/b"]


def test_times_before_the_epoch_stay(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "root", ["usr/a.py"])
    os.utime(root / "usr/a.py", (5, 5))
    tar = write_rootfs(root, tmp_path / "1.tar", EPOCH, keep_all)
    with tarfile.open(tar.path) as archive:
        assert archive.getmember("usr/a.py").mtime == 5
        assert archive.getmember("usr").mtime == EPOCH


def test_modes_links_and_hard_links_are_kept(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "root", ["usr/bin/su"])
    (root / "usr/bin/su").chmod(0o4755)
    os.link(root / "usr/bin/su", root / "usr/bin/same")
    (root / "bin").symlink_to("usr/bin")
    tar = write_rootfs(root, tmp_path / "1.tar", EPOCH, keep_all)
    with tarfile.open(tar.path) as archive:
        assert archive.getmember("bin").linkname == "usr/bin"
        assert archive.getmember("usr/bin/same").mode == 0o4755
        assert archive.getmember("usr/bin/su").islnk()
        assert archive.getmember("usr/bin/su").linkname == "usr/bin/same"


def test_what_its_making_left_behind_stays_out(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "root", [
        "etc/hostname", "etc/resolv.conf", "etc/passwd", "etc/passwd-", "var/log/dpkg.log",
        "var/cache/apt/pkgcache.bin", "var/cache/ldconfig/aux-cache", "var/lib/dpkg/status",
        "var/lib/dpkg/status-old", "var/lib/dpkg/lock", "tmp/x", "dev/null"])
    tar = write_rootfs(root, tmp_path / "1.tar", EPOCH, keep_all)
    with tarfile.open(tar.path) as archive:
        files = [member.name for member in archive if member.isfile()]
        assert files == ["etc/passwd", "var/lib/dpkg/status"]
        assert {"dev", "tmp", "var/log"} <= set(archive.getnames())


def test_kept_files_bring_their_folders(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "root", ["usr/share/doc/gcc/copyright", "usr/share/doc/gcc/NEWS",
                                         "usr/share/doc/empty/NEWS"])
    globs, kept = ("usr/share/doc/*",), ("usr/share/doc/*/copyright",)
    tar = write_rootfs(root, tmp_path / "1.tar", EPOCH, lambda p: left_out(p, globs, kept))
    assert names(tar.path) == ["usr", "usr/share", "usr/share/doc", "usr/share/doc/gcc",
                               "usr/share/doc/gcc/copyright"]


def test_a_whiteout_is_refused(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "root", ["usr/.wh.bin"])
    with pytest.raises(EngineError, match="whiteout"):
        write_rootfs(root, tmp_path / "1.tar", EPOCH, keep_all)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "root", ["usr/a"])
    os.mkfifo(root / "usr/pipe")
    with pytest.raises(EngineError, match="not a file, folder or link"):
        write_rootfs(root, tmp_path / "1.tar", EPOCH, keep_all)
