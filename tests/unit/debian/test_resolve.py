"""Package names into exact packages: what apt is asked, and what its answer becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.debian import resolve
from builder.debian.resolve import parse_uris, resolve_debs
from builder.errors import NetworkError
from builder.process import CommandError, Result

MIRRORS = ("http://m.example/debian", "http://m.example/debian-security")
PRINTED = (
    f"'{MIRRORS[0]}/pool/main/u/util-linux/bsdutils_2.38.1-5%2bdeb12u3_arm64.deb' "
    f"bsdutils_1%3a2.38.1-5+deb12u3_arm64.deb 84988 SHA256:{64 * 'a'}\n"
    f"'{MIRRORS[1]}/pool/updates/main/a/apt/apt_2.6.2_arm64.deb' apt_2.6.2_arm64.deb 12 "
    f"SHA256:{64 * 'b'}\n")


@pytest.fixture(autouse=True)
def mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_DEBIAN_MIRROR", MIRRORS[0])


def test_lines_of_apt_become_packages_without_any_host() -> None:
    apt, bsdutils = parse_uris(PRINTED, MIRRORS)
    assert (apt.name, apt.path) == ("apt", "pool/updates/main/a/apt/apt_2.6.2_arm64.deb")
    assert (bsdutils.version, bsdutils.arch) == ("1:2.38.1-5+deb12u3", "arm64")
    assert bsdutils.size == 84988


def test_lines_without_a_sha256_are_no_packages() -> None:
    assert parse_uris(PRINTED.replace("SHA256", "MD5Sum") + "Reading package lists...\n",
                      MIRRORS) == ()


@pytest.mark.parametrize("line", [
    f"'http://elsewhere.example/pool/x_1_all.deb' x_1_all.deb 1 SHA256:{64 * 'a'}",
    f"'{MIRRORS[0]}/pool/x.deb' x.deb 1 SHA256:{64 * 'a'}"])
def test_a_package_from_elsewhere_is_refused(line: str) -> None:
    with pytest.raises(NetworkError, match="not on the mirror"):
        parse_uris(line, MIRRORS)


def test_apt_is_given_a_folder_of_its_own_and_the_machines_mirror(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The options are read back as apt would: nothing of this machine's packages is left in."""
    runs: list[list[str]] = []
    sources: list[str] = []

    def run(words: list[str], **_options: object) -> Result:
        runs.append(words)
        settings = dict(word.split("=", 1) for word in words if word.startswith("Dir::"))
        sources.append(Path(settings["Dir::Etc::sourceparts"], "debian.sources").read_text())
        assert Path(settings["Dir::State::status"]).read_text() == ""
        assert settings["Dir::Etc::sourcelist"] == "/dev/null"
        return Result(("apt-get",), 0, PRINTED if "install" in words else "", "")

    monkeypatch.setattr(resolve.process, "run", run)
    names = [deb.name for deb in resolve_debs("bookworm", "arm64", ["gcc"], where="slim.toml")]
    assert names == ["apt", "bsdutils"]
    assert "APT::Architectures=arm64" in runs[1]
    assert runs[1][-2:] == ["?essential", "gcc"]
    assert f"URIs: {MIRRORS[1]}\nSuites: bookworm-security" in sources[0]


def test_a_package_that_apt_does_not_know_is_told_in_its_words(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], **_options: object) -> Result:
        if "update" in words:
            return Result(("apt-get",), 0, "", "")
        raise CommandError(Result(("apt-get",), 100, "",
                                  "W: \x1b[31mred\nE: Unable to locate package gccc"))
    monkeypatch.setattr(resolve.process, "run", run)
    with pytest.raises(NetworkError, match="locate package gccc") as caught:
        resolve_debs("bookworm", "arm64", ["gccc"], where="images/base/slim.toml")
    assert caught.value.where == "images/base/slim.toml"
    assert "\x1b" not in caught.value.what
