"""What every export says: safe where nothing else was asked, and remarks where it is not."""

from __future__ import annotations

import pytest
from exported import service

from builder.errors import UsageError
from builder.recipes.exports import service as module
from builder.recipes.exports.service import Holds, bracketed


def test_a_folder_is_mounted_read_only_and_the_hub_only_where_it_is_complete(
        monkeypatch: pytest.MonkeyPatch) -> None:
    assert [(m.holds, m.read_only) for m in service("tiny-gemma4").mounts] == [(Holds.MODEL, True)]
    planned = service("gemma4-31b-fp8")
    assert [(m.holds, m.read_only) for m in planned.mounts] == [
        (Holds.HUB, False), (Holds.COMPILED, False)]
    assert planned.needs_hub
    monkeypatch.setattr(module, "is_complete", lambda recipe: True)
    planned = service("gemma4-31b-fp8")
    assert planned.mounts[0].read_only
    assert planned.environment["HF_HUB_OFFLINE"] == "1"
    assert not planned.needs_hub


def test_an_open_server_without_a_key_is_remarked() -> None:
    assert not any("everybody" in remark for remark in service("tiny-gemma4").remarks)
    assert any("everybody" in remark
               for remark in service("tiny-gemma4", host="0.0.0.0").remarks)
    assert not any("everybody" in remark for remark in
                   service("tiny-gemma4", host="0.0.0.0", key_file="key").remarks)


def test_a_revision_that_moves_is_remarked() -> None:
    assert any("not pinned" in remark for remark in service("gemma4-31b-fp8").remarks)
    assert not any("not pinned" in remark for remark in service("tiny-gemma4").remarks)


@pytest.mark.parametrize("host", ["", "somewhere", "127.0.0.1 --privileged", "1.2.3"])
def test_what_is_no_address_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="not an IP address"):
        service("tiny-gemma4", host=host)


def test_ipv6_stands_in_brackets_before_a_port() -> None:
    assert bracketed("::1") == "[::1]"
    assert bracketed("127.0.0.1") == "127.0.0.1"


@pytest.mark.parametrize("variable", ["", "HF_HOME", "SPARKYARD_CACHE"])
@pytest.mark.parametrize("char", ["\n", "\r", "\x1b", "\x85", "\u2028", "\u2029"])
def test_a_path_that_would_begin_a_line_of_its_own_is_refused(
        monkeypatch: pytest.MonkeyPatch, variable: str, char: str) -> None:
    path = f"/a{char}touch pasted"
    if variable:
        monkeypatch.setenv(variable, path)
    with pytest.raises(UsageError, match="line ends or control characters"):
        service("tiny-gemma4", key_file="" if variable else path)
