"""The machine's own apt sources, in both of apt's forms."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder import limits
from builder.debian.apt_sources import debian_mirrors, parse_deb822, parse_lines, read_sources
from builder.errors import UsageError

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian.gpg

Types: deb
URIs: http://mirror.example/debian-security/
Suites: bookworm-security
Components: main

Types: deb-src
URIs: http://mirror.example/sources
Suites: bookworm
Components: main

Types: deb
URIs: http://mirror.example/off
Suites: bookworm
Components: main
Enabled: no
"""


def write(folder: Path, name: str, text: str) -> Path:
    place = folder / "sources.list.d"
    place.mkdir(exist_ok=True)
    (place / name).write_text(text)
    return folder


def test_deb822_leaves_out_sources_and_disabled_stanzas() -> None:
    found = list(parse_deb822(DEB822))
    assert [source.uri for source in found] == [
        "http://mirror.example/debian", "http://mirror.example/debian-security"]
    assert found[0].suites == ("bookworm", "bookworm-updates")
    assert found[0].signed_by == "/usr/share/keyrings/debian.gpg"


def test_one_line_form_with_options() -> None:
    found = list(parse_lines(
        "# deb http://no.example/ x main\n"
        "deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian/ bookworm main\n"
        "deb-src http://mirror.example/debian bookworm main\n"))
    assert [(source.uri, source.suites, source.signed_by) for source in found] == [
        ("http://mirror.example/debian", ("bookworm",), "/k.gpg")]


def test_mirrors_of_a_debian_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARKYARD_DEBIAN_MIRROR", raising=False)
    apt = write(tmp_path, "debian.sources", DEB822)
    assert debian_mirrors("bookworm", apt) == (
        "http://mirror.example/debian", "http://mirror.example/debian-security")


def test_switched_off_source_files_are_not_read(tmp_path: Path) -> None:
    assert read_sources(write(tmp_path, "debian.sources.disabled", DEB822)) == ()


def test_a_list_that_cannot_be_one_is_refused_by_its_name(tmp_path: Path) -> None:
    apt = write(tmp_path, "endless.list", "deb http://mirror.example/debian bookworm main\n")
    with (apt / "sources.list.d/endless.list").open("ab") as handle:
        handle.truncate(limits.CONFIG_BYTES + 1)
    with pytest.raises(UsageError, match="larger than") as caught:
        read_sources(apt)
    assert caught.value.where.endswith("endless.list")


def test_a_list_that_may_not_be_read_is_refused_by_its_name(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    apt = write(tmp_path, "secret.list", "deb http://mirror.example/debian bookworm main\n")
    monkeypatch.setattr(limits, "read_file", refuse)
    with pytest.raises(UsageError, match="Permission denied") as caught:
        read_sources(apt)
    assert "SPARKYARD_DEBIAN_MIRROR" in caught.value.next_step


def test_pipes_and_devices_among_the_lists_are_not_opened(tmp_path: Path) -> None:
    apt = write(tmp_path, "debian.sources", DEB822)
    os.mkfifo(apt / "sources.list.d/pipe.list")
    (apt / "sources.list.d/zero.list").symlink_to("/dev/zero")
    assert len(read_sources(apt)) == 2


def test_a_named_mirror_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_DEBIAN_MIRROR", "http://named.example/debian/")
    apt = write(tmp_path, "debian.sources", DEB822)
    assert debian_mirrors("bookworm", apt) == (
        "http://named.example/debian", "http://named.example/debian-security")


@pytest.mark.parametrize("address", ["https://me:pw@mirror.example/debian", "http://me@m/debian"])
def test_a_password_in_the_mirrors_address_is_refused_and_not_shown(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """It would stand in the list of processes."""
    monkeypatch.setenv("SPARKYARD_DEBIAN_MIRROR", address)
    with pytest.raises(UsageError, match="no user name or password") as caught:
        debian_mirrors("bookworm", tmp_path)
    assert "auth.conf.d" in caught.value.next_step
    assert address not in str(caught.value)
    monkeypatch.setenv("SPARKYARD_DEBIAN_MIRROR", "http://m.example/a@b/debian")
    assert debian_mirrors("bookworm", tmp_path)[0] == "http://m.example/a@b/debian"


def test_a_machine_without_a_debian_mirror_is_told_how_to_name_one(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARKYARD_DEBIAN_MIRROR", raising=False)
    apt = write(tmp_path, "ubuntu.list", "deb http://mirror.example/ubuntu noble main\n")
    with pytest.raises(UsageError) as caught:
        debian_mirrors("bookworm", apt)
    assert "SPARKYARD_DEBIAN_MIRROR" in caught.value.next_step
