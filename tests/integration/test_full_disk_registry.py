"""A registry whose disk is full while a tag is to move, and a checkout whose disk is (root only).

The registry's disk is a small file system in memory. It is filled to every amount of free space
that a step could need, so that the disk becomes full at each write of it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from builder.files import free_bytes
from builder.locking.sums import read_sums, record_sum
from builder.nightly.last_good import LastGood
from builder.promotion import cell as promotion_cell
from builder.registry.client import Client
from tests.integration.test_promote import Shop, shop

__all__ = ["shop"]
SIZE = 8 << 20
PAGE, MOST_PAGES = 4096, 7
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Put the registry's data on the small disk, before the registry starts."""
    with mounted(tmp_path / "data") as folder:
        yield folder


@contextmanager
def filled(disk: Path, pages: int) -> Iterator[None]:
    """Leave so many pages of a disk free."""
    filler = disk / "filler"
    left = free_bytes(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(left - pages * PAGE, PAGE))
    try:
        yield
    finally:
        filler.unlink()


def test_a_tag_points_at_an_image_that_passed_wherever_the_registrys_disk_becomes_full(
        disk: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(promotion_cell, "Client", partial(Client, pause_s=0.01))
    good = [shop.ship(number).digest for number in ("1.0", "2.0")]
    for number in ("1.0", "2.0"):
        assert shop.run("promote", "probe", "--image", f"probe-{number}") == 0
    refused = 0
    for pages in range(MOST_PAGES):
        for words in (("rollback", "probe", "--to", "probe-1.0"),
                      ("promote", "probe", "--image", "probe-2.0")):
            capsys.readouterr()
            with filled(disk, pages):
                code = shop.run(*words)
                assert shop.pointed() in good
            if code:
                refused += 1
                assert code == 4
                assert "is its disk full?" in capsys.readouterr().err
                assert shop.run(*words) == 0, "with room again, the same command goes through"
            assert shop.pointed() == good[words[0] == "promote"]
    assert refused


def test_a_checkout_without_room_gets_its_last_good_lock_back(tmp_path: Path) -> None:
    with mounted(tmp_path / "locks") as locks:
        path = locks / "cpu.toml"
        for text in ("good", "new"):
            path.unlink(missing_ok=True)
            path.write_text(text)
            record_sum(path)
            if text == "good":
                sums, kept = read_sums(locks), LastGood(path)
        with filled(locks, 0):
            kept.restore()
            kept.forget()
            assert path.read_text() == "good"
            assert read_sums(locks) == sums
