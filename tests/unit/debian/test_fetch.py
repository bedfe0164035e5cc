"""Packages into the cache: hashed before they are trusted, and what is gone told from the rest.

apt's downloader is replaced by a program of the test's own that really runs, so that the words
which it is given, its exit status and what it leaves are those of a program.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from builder import limits
from builder.debian import archives
from builder.debian.archives import mirror
from builder.debian.fetch import GoneError, fetch_debs, place
from builder.errors import DiskError, IntegrityError, NetworkError, SparkyardError, UsageError
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
def _mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_DEBIAN_MIRROR", MIRROR)


class Shelf:
    """A source that has some packages and says of the others what it is told to say."""

    at_once = 2

    def __init__(self, title: str, *has: LockedDeb, says: bytes | SparkyardError = b"") -> None:
        self.title, self.has, self.says, self.asked = title, has, says, list[str]()

    def get(self, deb: LockedDeb, target: Path) -> bool:
        self.asked.append(deb.name)
        if deb in self.has:
            target.write_bytes(DATA)
        elif isinstance(self.says, SparkyardError):
            raise self.says
        elif self.says:
            target.write_bytes(self.says)
        return bool(self.says) or deb in self.has


class Downloader:
    """A stand-in for ``apt-helper``."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._asked = folder / "asked"
        self._program = folder / "apt-helper"
        monkeypatch.setattr(archives, "HELPER", str(self._program))

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
    [path] = fetch_debs([DEB], [mirror("bookworm")], tmp_path).paths
    assert path == tmp_path / "debs" / f"{DEB.sha256}.deb"
    assert path.read_bytes() == DATA
    assert downloader.asked == [f"{MIRROR}/{DEB.path}"]
    fetch_debs([DEB], [mirror("bookworm")], tmp_path)
    assert len(downloader.asked) == 1


def test_security_updates_come_from_their_own_archive(
        tmp_path: Path, downloader: Downloader) -> None:
    deb = DEB.model_copy(update={"path": "pool/updates/main/a/apt/apt_2.6.2_arm64.deb"})
    fetch_debs([deb], [mirror("bookworm")], tmp_path)
    assert downloader.asked == [f"{MIRROR}-security/{deb.path}"]


def test_a_damaged_package_is_fetched_again(
        tmp_path: Path, downloader: Downloader, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "debs").mkdir()
    place(tmp_path / "debs", DEB).write_bytes(b"a pack")
    [path] = fetch_debs([DEB], [mirror("bookworm")], tmp_path).paths
    assert path.read_bytes() == DATA
    assert "is damaged" in capsys.readouterr().err


def test_other_bytes_are_never_kept(tmp_path: Path, downloader: Downloader) -> None:
    downloader.does('echo "something else" > "$target"')
    with pytest.raises(IntegrityError) as caught:
        fetch_debs([DEB], [mirror("bookworm")], tmp_path)
    assert caught.value.expected == DEB.sha256
    assert list((tmp_path / "debs").iterdir()) == []


def test_every_package_that_is_gone_is_counted_and_the_next_step_is_named(
        tmp_path: Path, downloader: Downloader) -> None:
    downloader.does("""case "$address" in *apt_*) printf "a package" > "$target";;
        *) echo "E: Failed to fetch $address  404  Not Found" >&2; exit 100;; esac""")
    debs = [DEB, *map(other, ("a", "b", "c", "d"))]
    with pytest.raises(GoneError, match=r"a 2\.6\.2, b 2\.6\.2, c 2\.6\.2 and 1 more") as caught:
        fetch_debs(debs, [mirror("bookworm")], tmp_path)
    assert "./nox -s base -- --upgrade" in caught.value.next_step
    assert place(tmp_path / "debs", DEB).exists()


@pytest.mark.parametrize(("then", "reason"), [
    ('echo "E: Could not connect to m.example" >&2; exit 100', "Could not connect"),
    ("exit 1", "gives no reason")])
def test_unreachable_is_not_gone(tmp_path: Path, downloader: Downloader, then: str, reason: str
                                 ) -> None:
    downloader.does(then)
    with pytest.raises(NetworkError, match=reason) as caught:
        fetch_debs([DEB], [mirror("bookworm")], tmp_path)
    assert not isinstance(caught.value, GoneError)
    assert caught.value.where == DEB.path


def test_a_mirror_that_never_ends_is_given_up(
        tmp_path: Path, downloader: Downloader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DEB_S", 0.2)
    downloader.does("exec sleep 60")
    with pytest.raises(NetworkError, match="cannot be fetched"):
        fetch_debs([DEB], [mirror("bookworm")], tmp_path)
    assert list((tmp_path / "debs").iterdir()) == []


def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(
        tmp_path: Path, downloader: Downloader) -> None:
    with pytest.raises(DiskError):
        fetch_debs([DEB.model_copy(update={"size": 1 << 60})], [mirror("bookworm")], tmp_path)
    assert downloader.asked == []


def test_the_next_source_is_asked_for_what_is_missing_alone(tmp_path: Path) -> None:
    first, second, third = Shelf("mirror"), Shelf("snapshot", DEB), Shelf("registry", DEB)
    fetched = fetch_debs([DEB], [first, second, third], tmp_path)
    assert fetched.paths[0].read_bytes() == DATA
    assert fetched.counts == {"snapshot": 1}
    assert (first.asked, second.asked, third.asked) == (["apt"], ["apt"], [])
    assert str(fetched.answers[0]) == "mirror: does not have apt 2.6.2"


@pytest.mark.parametrize("says", [b"<html>", NetworkError("no answer"), UsageError("no address")])
def test_a_source_that_gives_other_bytes_or_nothing_leads_to_the_next(
        tmp_path: Path, says: bytes | SparkyardError) -> None:
    sources = [Shelf("mirror", says=says), Shelf("snapshot", says=says), Shelf("registry", DEB)]
    fetched = fetch_debs([DEB], sources, tmp_path)
    assert fetched.paths[0].read_bytes() == DATA
    assert fetched.counts == {"registry": 1}


def test_a_source_that_does_not_answer_is_not_asked_for_each_package(tmp_path: Path) -> None:
    silent = Shelf("mirror", says=NetworkError("no answer"))
    debs = [DEB, *map(other, "abcdefgh")]
    with pytest.raises(NetworkError, match="no answer"):
        fetch_debs(debs, [silent], tmp_path)
    assert len(silent.asked) <= silent.at_once


def test_gone_everywhere_names_what_each_source_said(tmp_path: Path) -> None:
    sources = [Shelf("mirror"), Shelf("snapshot", says=NetworkError("no\n\x1b[31manswer")),
               Shelf("registry")]
    with pytest.raises(GoneError) as caught:
        fetch_debs([DEB], sources, tmp_path)
    assert caught.value.what.splitlines() == [
        "locked Debian packages are gone: apt 2.6.2", "  mirror: does not have apt 2.6.2",
        r"  snapshot: no \x1b[31manswer", "  registry: does not have apt 2.6.2"]


def test_a_mirror_that_cannot_be_asked_is_not_gone_whatever_the_others_say(tmp_path: Path) -> None:
    sources = [Shelf("mirror", says=NetworkError("no answer", next_step="check it")),
               Shelf("snapshot")]
    with pytest.raises(NetworkError) as caught:
        fetch_debs([DEB], sources, tmp_path)
    assert not isinstance(caught.value, GoneError)
    assert "  snapshot: does not have apt 2.6.2" in caught.value.what
    assert caught.value.next_step == "check it"
