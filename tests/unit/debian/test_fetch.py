"""Packages into the cache: hashed before they are trusted, and what is gone told from the rest.

apt's downloader is replaced by a program of the test's own that really runs, so that the words
which it is given, its exit status and what it leaves are those of a program.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from builder import limits
from builder.debian import fetch
from builder.debian.fetch import GoneError, fetch_debs, place
from builder.errors import DiskError, IntegrityError, NetworkError
from builder.locking.base_lock import LockedDeb

MIRROR = "http://m.example/debian"
DATA = b"a package"
DEB = LockedDeb(name="apt", version="2.6.2", arch="arm64", size=len(DATA),
                sha256=hashlib.sha256(DATA).hexdigest(), path="pool/main/a/apt/apt_2.6.2_arm64.deb")
# The downloader's last two words are the address and the target.
PROGRAM = """#!/bin/sh
for word; do address=$target; target=$word; done
echo "$address" >> {asked}
{then}
"""


@pytest.fixture(autouse=True)
def mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_DEBIAN_MIRROR", MIRROR)


class Downloader:
    """A stand-in for ``apt-helper``."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._asked = folder / "asked"
        self._program = folder / "apt-helper"
        monkeypatch.setattr(fetch, "HELPER", str(self._program))

    def does(self, then: str) -> None:
        """Run ``then`` of a shell, which knows ``$address`` and ``$target``."""
        self._program.write_text(PROGRAM.format(asked=self._asked, then=then))
        self._program.chmod(0o755)

    @property
    def asked(self) -> list[str]:
        """Return the addresses that were asked for."""
        return self._asked.read_text().splitlines() if self._asked.exists() else []


@pytest.fixture
def downloader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Downloader:
    made = Downloader(tmp_path, monkeypatch)
    made.does('printf "a package" > "$target"')
    return made


def other(name: str) -> LockedDeb:
    return DEB.model_copy(update={"name": name, "sha256": 64 * name[0],
                                  "path": f"pool/main/{name}.deb"})


def test_a_fetched_package_lies_under_its_digest(tmp_path: Path, downloader: Downloader) -> None:
    [path] = fetch_debs([DEB], "bookworm", tmp_path)
    assert path == tmp_path / "debs" / f"{DEB.sha256}.deb"
    assert path.read_bytes() == DATA
    assert downloader.asked == [f"{MIRROR}/{DEB.path}"]
    fetch_debs([DEB], "bookworm", tmp_path)
    assert len(downloader.asked) == 1


def test_security_updates_come_from_their_own_archive(
        tmp_path: Path, downloader: Downloader) -> None:
    deb = DEB.model_copy(update={"path": "pool/updates/main/a/apt/apt_2.6.2_arm64.deb"})
    fetch_debs([deb], "bookworm", tmp_path)
    assert downloader.asked == [f"{MIRROR}-security/{deb.path}"]


def test_a_damaged_package_is_fetched_again(
        tmp_path: Path, downloader: Downloader, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "debs").mkdir()
    place(tmp_path / "debs", DEB).write_bytes(b"a pack")
    [path] = fetch_debs([DEB], "bookworm", tmp_path)
    assert path.read_bytes() == DATA
    assert "is damaged" in capsys.readouterr().err


def test_other_bytes_are_never_kept(tmp_path: Path, downloader: Downloader) -> None:
    downloader.does('echo "something else" > "$target"')
    with pytest.raises(IntegrityError) as caught:
        fetch_debs([DEB], "bookworm", tmp_path)
    assert caught.value.expected == DEB.sha256
    assert list((tmp_path / "debs").iterdir()) == []


def test_every_package_that_is_gone_is_counted_and_the_next_step_is_named(
        tmp_path: Path, downloader: Downloader) -> None:
    downloader.does("""case "$address" in *apt_*) printf "a package" > "$target";;
        *) echo "E: Failed to fetch $address  404  Not Found" >&2; exit 100;; esac""")
    debs = [DEB, *map(other, ("a", "b", "c", "d"))]
    with pytest.raises(GoneError, match=r"a 2\.6\.2, b 2\.6\.2, c 2\.6\.2 and 1 more") as caught:
        fetch_debs(debs, "bookworm", tmp_path)
    assert "./nox -s base -- --upgrade" in caught.value.next_step
    assert place(tmp_path / "debs", DEB).exists()


@pytest.mark.parametrize(("then", "reason"), [
    ('echo "E: Could not connect to m.example" >&2; exit 100', "Could not connect"),
    ("exit 1", "gives no reason")])
def test_unreachable_is_not_gone(tmp_path: Path, downloader: Downloader, then: str, reason: str
                                 ) -> None:
    downloader.does(then)
    with pytest.raises(NetworkError, match=reason) as caught:
        fetch_debs([DEB], "bookworm", tmp_path)
    assert not isinstance(caught.value, GoneError)
    assert caught.value.where == DEB.path


def test_a_mirror_that_never_ends_is_given_up(
        tmp_path: Path, downloader: Downloader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DEB_S", 0.2)
    downloader.does("exec sleep 60")
    with pytest.raises(NetworkError, match="cannot be fetched"):
        fetch_debs([DEB], "bookworm", tmp_path)
    assert list((tmp_path / "debs").iterdir()) == []


def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(
        tmp_path: Path, downloader: Downloader) -> None:
    with pytest.raises(DiskError):
        fetch_debs([DEB.model_copy(update={"size": 1 << 60})], "bookworm", tmp_path)
    assert downloader.asked == []
