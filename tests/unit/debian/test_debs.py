"""What apt says, into locked packages; and packages into the cache, hashed before trusted."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from builder.debian import fetch as fetch_debs
from builder.debian import resolve as resolve_debs
from builder.errors import IntegrityError, NetworkError
from builder.locking.base_lock import LockedDeb
from builder.process import CommandError, Result

MIRRORS = ("http://m.example/debian", "http://m.example/debian-security")
SAID = (
    f"'{MIRRORS[0]}/pool/main/u/util-linux/bsdutils_2.38.1-5%2bdeb12u3_arm64.deb' "
    f"bsdutils_1%3a2.38.1-5+deb12u3_arm64.deb 84988 SHA256:{64 * 'a'}\n"
    f"'{MIRRORS[1]}/pool/updates/main/a/apt/apt_2.6.2_arm64.deb' apt_2.6.2_arm64.deb 12 "
    f"SHA256:{64 * 'b'}\n")
DATA = b"a package"
DEB = LockedDeb(name="apt", version="2.6.2", arch="arm64", size=len(DATA),
                sha256=hashlib.sha256(DATA).hexdigest(), path="pool/main/a/apt/apt_2.6.2_arm64.deb")


@pytest.fixture(autouse=True)
def mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_DEBIAN_MIRROR", MIRRORS[0])


def serve(monkeypatch: pytest.MonkeyPatch, data: bytes | None, said: str = "") -> list[str]:
    """Stand in for apt's downloader: write ``data``, or fail saying ``said``."""
    asked: list[str] = []

    def run(words: list[object], *, check: bool) -> Result:
        asked.append(str(words[-2]))
        if data is None:
            return Result(("apt-helper",), 100, "", said)
        Path(str(words[-1])).write_bytes(data)
        return Result(("apt-helper",), 0, "", "")

    monkeypatch.setattr(fetch_debs.process, "run", run)
    return asked


def test_lines_of_apt_become_packages_without_any_host() -> None:
    apt, bsdutils = resolve_debs.parse_uris(SAID, MIRRORS)
    assert (apt.name, apt.path) == ("apt", "pool/updates/main/a/apt/apt_2.6.2_arm64.deb")
    assert (bsdutils.version, bsdutils.arch) == ("1:2.38.1-5+deb12u3", "arm64")
    assert bsdutils.size == 84988


def test_a_package_that_apt_does_not_know_is_told_in_its_words(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str]) -> Result:
        if "update" in words:
            return Result(("apt-get",), 0, "", "")
        raise CommandError(Result(("apt-get",), 100, "", "E: Unable to locate package gccc"))
    monkeypatch.setattr(resolve_debs.process, "run", run)
    with pytest.raises(NetworkError, match="locate package gccc"):
        resolve_debs.resolve_debs("bookworm", "arm64", ["gccc"])


def test_a_fetched_package_lies_under_its_digest(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = serve(monkeypatch, DATA)
    [path] = fetch_debs.fetch_debs([DEB], "bookworm", tmp_path)
    assert path == tmp_path / "debs" / f"{DEB.sha256}.deb"
    assert path.read_bytes() == DATA
    assert asked == [f"{MIRRORS[0]}/{DEB.path}"]
    fetch_debs.fetch_debs([DEB], "bookworm", tmp_path)
    assert len(asked) == 1


def test_security_updates_come_from_their_own_archive(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = serve(monkeypatch, DATA)
    deb = DEB.model_copy(update={"path": "pool/updates/main/a/apt/apt_2.6.2_arm64.deb"})
    fetch_debs.fetch_debs([deb], "bookworm", tmp_path)
    assert asked == [f"{MIRRORS[1]}/{deb.path}"]


def test_a_damaged_package_is_fetched_again(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, DATA)
    (tmp_path / "debs").mkdir()
    fetch_debs.place(tmp_path / "debs", DEB).write_bytes(b"a pack")
    [path] = fetch_debs.fetch_debs([DEB], "bookworm", tmp_path)
    assert path.read_bytes() == DATA


def test_other_bytes_are_never_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, b"something else")
    with pytest.raises(IntegrityError) as caught:
        fetch_debs.fetch_debs([DEB], "bookworm", tmp_path)
    assert caught.value.expected == DEB.sha256
    assert list((tmp_path / "debs").iterdir()) == []


def test_gone_is_told_from_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, None, "E: Failed to fetch http://m 404  Not Found")
    with pytest.raises(fetch_debs.GoneError, match=r"no longer has apt 2\.6\.2"):
        fetch_debs.fetch_debs([DEB], "bookworm", tmp_path)
    serve(monkeypatch, None, "E: Could not connect to m.example")
    with pytest.raises(NetworkError, match="Could not connect") as caught:
        fetch_debs.fetch_debs([DEB], "bookworm", tmp_path)
    assert not isinstance(caught.value, fetch_debs.GoneError)
