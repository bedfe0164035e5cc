"""A root file system: its skeleton, what is checked after dpkg, and the certificate bundle."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NoReturn

import pytest

from builder import process
from builder.debian import rootfs
from builder.debian.rootfs import (
    CERTIFICATE_SCRIPT,
    CERTS,
    STORE,
    environment,
    install,
    install_bundle,
    link_name,
    root_folder,
    trusted_names,
)
from builder.errors import EngineError, UsageError
from builder.process import CommandError, Result

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="device files and owners need root")


def refuse(words: list[object], **_options: object) -> NoReturn:
    raise CommandError(Result(tuple(map(str, words)), 1, "", "dpkg: error processing package x"))


def pretend_dpkg(monkeypatch: pytest.MonkeyPatch, root: Path, status: str) -> list[list[str]]:
    """Stand in for chroot and dpkg: --unpack writes what dpkg would leave, and is written down."""
    runs: list[list[str]] = []

    def run(words: list[object], **_options: object) -> Result:
        runs.append([str(word) for word in words])
        if "--unpack" in words:
            script = root / CERTIFICATE_SCRIPT
            script.parent.mkdir(exist_ok=True)
            script.write_text("the real one")
            (root / "etc").mkdir(exist_ok=True)
            (root / "etc/ca-certificates.conf").write_text("")
            (root / "var/lib/dpkg/status").write_text(f"Package: x\nStatus: {status}\n")
        if "--configure" in words:
            assert str((root / CERTIFICATE_SCRIPT).readlink()) == "/bin/true"
        return Result(("dpkg",), 0, "", "")

    monkeypatch.setattr(rootfs.process, "run", run)
    return runs


@ROOT_ONLY
def test_packages_are_unpacked_here_and_configured_with_one_script_left_out(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with root_folder(tmp_path, "amd64") as root:
        runs = pretend_dpkg(monkeypatch, root, "install ok installed")
        install(root, [], "amd64", 7)
        assert (root / CERTIFICATE_SCRIPT).read_text() == "the real one"
        assert stat.S_ISCHR((root / "dev/null").stat().st_mode)
        assert str((root / "lib64").readlink()) == "usr/lib64"
    assert [next(word for word in words if word in ("chroot", "--unpack", "--configure", "rehash"))
            for words in runs] == ["chroot", "--unpack", "--configure", "rehash"]
    assert not root.exists()


@ROOT_ONLY
def test_a_package_that_is_half_installed_is_an_error(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with root_folder(tmp_path, "arm64") as root:
        pretend_dpkg(monkeypatch, root, "install ok half-configured")
        with pytest.raises(EngineError, match=r"x \(install ok half-configured\)"):
            install(root, [], "arm64", 7)


@ROOT_ONLY
def test_a_failing_maintainer_script_names_its_package(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with root_folder(tmp_path, "arm64") as root:
        monkeypatch.setattr(rootfs, "_check_runs", lambda *_: None)
        monkeypatch.setattr(rootfs.process, "run", refuse)
        with pytest.raises(EngineError, match="error processing package x") as caught:
            install(root, [], "arm64", 7)
    assert "./nox -s engine" in caught.value.next_step


@ROOT_ONLY
def test_a_machine_that_cannot_run_the_target_is_told_how_to_emulate(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs.process, "run", lambda *_, **__: Result(("chroot",), 126, "", ""))
    with (root_folder(tmp_path, "arm64") as root,
          pytest.raises(EngineError, match="cannot run arm64 programs")):
        install(root, [], "arm64", 7)


@ROOT_ONLY
def test_what_a_killed_run_left_is_swept(tmp_path: Path) -> None:
    left = tmp_path / "rootfs/amd64/usr"
    left.mkdir(parents=True)
    with root_folder(tmp_path, "amd64") as root:
        assert list(root.iterdir()) == []


@ROOT_ONLY
def test_a_damaged_package_cannot_be_unpacked(tmp_path: Path) -> None:
    deb = tmp_path / "x.deb"
    deb.write_bytes(b"not a package")
    with (root_folder(tmp_path, "amd64") as root,
          pytest.raises(EngineError, match="cannot be unpacked") as caught):
        install(root, [deb], "amd64", 7)
    assert caught.value.where == str(deb)


def test_a_user_who_is_not_root_is_told_both_ways_on(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs.os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="needs root") as caught, root_folder(tmp_path, "amd64"):
        pass
    assert "sudo" in caught.value.next_step
    assert "SPARKYARD_REGISTRY" in caught.value.next_step


def test_maintainer_scripts_see_no_time_and_no_language_of_this_machine() -> None:
    assert environment(7)["SOURCE_DATE_EPOCH"] == "7"
    assert (environment(7)["TZ"], environment(7)["LC_ALL"]) == ("UTC", "C")


def make_certificate(path: Path, name: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    process.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj",
                 f"/CN={name}", "-keyout", "/dev/null", "-out", path])


def test_names_marked_or_commented_are_left_out() -> None:
    assert trusted_names("# c\nmozilla/A.crt\n!mozilla/B.crt\n\nmozilla/C.crt\n") == [
        "mozilla/A.crt", "mozilla/C.crt"]


def test_awkward_names_become_plain_links() -> None:
    assert link_name("mozilla/Some CA (2,048).crt") == "Some_CA_=2_048=.pem"


def test_bundle_and_links(tmp_path: Path) -> None:
    for name in ("A", "B"):
        make_certificate(tmp_path / STORE / f"mozilla/{name}.crt", name)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ca-certificates.conf").write_text("mozilla/A.crt\nmozilla/B.crt\n")
    install_bundle(tmp_path)
    install_bundle(tmp_path)  # again over what is there
    certs = tmp_path / CERTS
    assert (certs / "ca-certificates.crt").read_text().count("BEGIN CERTIFICATE") == 2
    assert str((certs / "A.pem").readlink()) == f"/{STORE}/mozilla/A.crt"
    hashed = [link for link in certs.iterdir() if link.name.endswith(".0")]
    assert {str(link.readlink()) for link in hashed} == {"A.pem", "B.pem"}
