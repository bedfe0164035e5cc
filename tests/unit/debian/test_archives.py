"""The mirror and the snapshot service: which addresses, in which order, and when they are done."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from builder import limits
from builder.debian import archives
from builder.debian.archives import mirror, snapshot
from builder.errors import NetworkError, UsageError
from builder.locking.base_lock import LockedDeb

DEB = LockedDeb(name="apt", version="2.6.2", arch="arm64", size=3,
                sha256=hashlib.sha256(b"deb").hexdigest(), path="pool/main/a/apt/apt_404.deb")
UPDATE = DEB.model_copy(update={"path": "pool/updates/main/a/apt/apt.deb"})
SERVICE = "https://s.example/archive/{archive}/{time}"
TIME = "20261101T235959Z"


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(archives.VARIABLE, raising=False)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for apt's downloader by a shell script that notes each address."""
    path = tmp_path / "apt-helper"
    monkeypatch.setattr(archives, "HELPER", str(path))
    return path


def does(program: Path, then: str) -> None:
    program.write_text('#!/bin/sh\nfor word; do address=$target; target=$word; done\n'
                       f'echo "$address" >> {program}.asked\n{then}\n')
    program.chmod(0o755)


def asked(program: Path) -> list[str]:
    return program.with_name("apt-helper.asked").read_text().splitlines()


def test_a_snapshot_is_asked_at_its_time_then_a_day_before_and_after(program: Path) -> None:
    does(program, 'echo "E: Failed to fetch $address  404  Not Found" >&2; exit 100')
    found = snapshot(SERVICE, TIME)
    assert found is not None
    assert found.get(UPDATE, program.with_name("x")) is False
    assert asked(program) == [f"https://s.example/archive/debian-security/{time}/{UPDATE.path}"
                              for time in (TIME, "20261031T235959Z", "20261102T235959Z")]


def test_the_first_address_that_has_it_is_the_last_asked(program: Path) -> None:
    does(program, """case "$address" in *20261031*) printf deb > "$target";;
        *) echo "E: Failed to fetch $address  410  Gone" >&2; exit 100;; esac""")
    found = snapshot(SERVICE, TIME)
    assert found is not None
    assert found.get(DEB, program.with_name("x")) is True
    assert len(asked(program)) == 2
    assert program.with_name("x").read_bytes() == b"deb"


def test_a_404_in_an_address_is_no_answer(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_DEBIAN_MIRROR", "http://m.example/debian")
    does(program, 'echo "E: Failed to fetch $address  Could not connect" >&2; exit 100')
    with pytest.raises(NetworkError, match="Could not connect"):
        mirror("bookworm").get(DEB, program.with_name("x"))


def test_an_answer_without_end_is_cut_off(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "SLACK_BYTES", 1000)
    does(program, 'exec yes > "$target"')
    found = snapshot(SERVICE, TIME)
    assert found is not None
    with pytest.raises(NetworkError):
        found.get(DEB, program.with_name("x"))
    assert program.with_name("x").stat().st_size == DEB.size + 1000


def test_a_service_that_trickles_is_given_up(program: Path, monkeypatch: pytest.MonkeyPatch
                                             ) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_DEB_S", 0.2)
    does(program, "exec sleep 60")
    found = snapshot(SERVICE, TIME)
    assert found is not None
    with pytest.raises(NetworkError, match="cannot be fetched"):
        found.get(DEB, program.with_name("x"))


@pytest.mark.parametrize(("template", "time", "named"), [
    (None, TIME, ""), (SERVICE, "", ""), (SERVICE, TIME, "off")])
def test_without_a_service_or_a_time_nothing_is_asked(
        template: str | None, time: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(archives.VARIABLE, named)
    assert snapshot(template, time) is None


def test_the_environment_names_another_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(archives.VARIABLE, "http://near.example/{time}/{archive}/")
    found = snapshot(SERVICE, TIME)
    assert found is not None
    assert found.addresses[0] == (f"http://near.example/{TIME}/debian",
                                  f"http://near.example/{TIME}/debian-security")


@pytest.mark.parametrize("address", [
    "near.example", "ftp://x/{archive}/{time}", "http://x/{time}", "http://x/{archive}/{time} y"])
def test_an_address_that_is_none_is_refused_by_its_variable(
        address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(archives.VARIABLE, address)
    with pytest.raises(UsageError) as caught:
        snapshot(SERVICE, TIME)
    assert caught.value.where == archives.VARIABLE


def test_a_password_in_the_service_s_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(archives.VARIABLE, "https://me:pw@s.example/archive/{archive}/{time}")
    with pytest.raises(UsageError, match="no user name or password") as caught:
        snapshot(SERVICE, TIME)
    assert "pw@" not in str(caught.value)
