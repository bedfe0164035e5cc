"""The login that docker keeps: from its file, from a helper, or none; never shown."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from builder.registry.credentials import Login, find_login

AUTH = base64.b64encode(b"me:secret:with:colons").decode()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path / "config.json"


def test_a_login_of_the_file(config: Path) -> None:
    config.write_text(json.dumps({"auths": {"r.example": {"auth": AUTH}}}))
    assert find_login(["r.example"]) == Login("me", "secret:with:colons")
    assert find_login(["other.example"]) is None
    assert find_login(["other.example", "r.example"]) is not None


def test_an_identity_token_is_known_as_one(config: Path) -> None:
    config.write_text(json.dumps({"auths": {"r.example": {"auth": AUTH, "identitytoken": "i"}}}))
    login = find_login(["r.example"])
    assert login is not None
    assert login.is_token
    assert login.secret == "i"


@pytest.mark.parametrize("text", [
    "", "[]", "{", '{"auths": 5}', '{"auths": {"r.example": 5}}', "[" * 100_000,
    '{"auths": {"r.example": {}}}', '{"auths": {"r.example": {"auth": "%%%"}}}',
    '{"auths": {"r.example": {"auth": "/w=="}}}', '{"credHelpers": 5}',
    '{"credsStore": "../../bin/evil"}', '{"credsStore": "not-installed-anywhere"}'])
def test_a_file_without_a_login_is_no_error(config: Path, text: str) -> None:
    config.write_text(text)
    assert find_login(["r.example"]) is None


def test_no_file_is_no_error(config: Path) -> None:
    assert find_login(["r.example"]) is None


@pytest.mark.parametrize("where", ['{"credsStore": "own"}',
                                   '{"credHelpers": {"r.example": "own"}}'])
def test_a_helper_is_asked(config: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    program = config.parent / "docker-credential-own"
    program.write_text('#!/bin/sh\nread name\n[ "$name" = r.example ] || exit 1\n'
                       'echo \'{"Username": "me", "Secret": "s"}\'\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{config.parent}:/usr/bin:/bin")
    config.write_text(where)
    assert find_login(["r.example"]) == Login("me", "s")
    assert find_login(["other.example"]) is None


def test_a_login_does_not_show_itself() -> None:
    assert "hunter22" not in repr(Login("me", "hunter22"))


def test_a_helper_with_a_name_that_no_file_can_have_gives_no_login(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {"r.example": "9" * 5000}}))
    assert find_login(("r.example",)) is None
