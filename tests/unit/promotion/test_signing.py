"""Signatures by cosign: what it is asked, and what its refusal becomes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder.errors import NetworkError, UsageError
from builder.promotion.signing import (
    IDENTITY,
    KEY_VARIABLE,
    SIGNATURE_CHARS,
    is_signed,
    require_key,
    sign,
    sign_text,
    signature_problem,
    signing_key,
)
from tests.unit.fake_repository import Memory, repository

DIGEST = "sha256:" + "1" * 64
COSIGN = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
[ -f "$(dirname "$0")/good" ] && exit 0
echo "Error: no matching signatures" >&2
exit 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "cosign"
    program.write_text(COSIGN)
    program.chmod(0o755)
    (tmp_path / "cosign.key").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_the_digest_is_signed_and_never_a_tag(folder: Path) -> None:
    (folder / "good").touch()
    sign(repository(Memory()), DIGEST, folder / "cosign.key")
    assert signature_problem(repository(Memory()), DIGEST, folder / "cosign.key") == ""
    calls = (folder / "calls").read_text().splitlines()
    assert all(line.endswith(f"127.0.0.1:5000/team/cpu@{DIGEST}") for line in calls)
    assert "--tlog-upload=false" in calls[0]


def test_a_refusal_says_what_cosign_said(folder: Path) -> None:
    with pytest.raises(NetworkError, match="cosign did not sign: Error: no matching"):
        sign(repository(Memory()), DIGEST, folder / "cosign.key")
    assert "no signature is by cosign.key: Error: no matching signatures" in signature_problem(
        repository(Memory()), DIGEST, folder / "cosign.key")


def test_a_key_that_is_not_there_is_said_before_anything_runs(folder: Path) -> None:
    for ask in (sign, signature_problem):
        with pytest.raises(UsageError, match="no such key"):
            ask(repository(Memory()), DIGEST, folder / "gone.key")
    with pytest.raises(UsageError, match="no such key"):
        sign_text(DIGEST, folder / "gone.key")
    with pytest.raises(UsageError, match="no such key"):
        is_signed(DIGEST, "MEUC", folder / "gone.key")
    assert not (folder / "calls").exists()


def test_a_text_is_signed_and_its_signature_judged_by_cosign(folder: Path) -> None:
    key = folder / "cosign.key"
    assert not is_signed(DIGEST, "MEUC", key)
    with pytest.raises(NetworkError, match="cosign did not sign"):
        sign_text(DIGEST, key)
    (folder / "good").touch()
    assert sign_text(DIGEST, key) == ""
    assert is_signed(DIGEST, "MEUC", key)
    assert not is_signed(DIGEST, "M" * (SIGNATURE_CHARS + 1), key)
    calls = (folder / "calls").read_text().splitlines()
    assert [line.split()[0] for line in calls] == ["verify-blob", "sign-blob", "sign-blob",
                                                   "verify-blob"]


def test_the_key_that_is_asked_for_wins_over_the_environments_and_an_empty_one_is_none(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert signing_key(None) is None
    monkeypatch.setenv(KEY_VARIABLE, "")
    assert signing_key(None) is None
    (folder / "good").touch()
    monkeypatch.setenv(KEY_VARIABLE, str(folder / "cosign.key"))
    assert signing_key(None) == folder / "cosign.key"
    (folder / "other.key").touch()
    assert signing_key(folder / "other.key") == folder / "other.key"
    (folder / "calls").unlink()
    monkeypatch.setenv(KEY_VARIABLE, str(folder / "gone.key"))
    with pytest.raises(UsageError, match="no such key") as caught:
        signing_key(None)
    assert caught.value.where.startswith(KEY_VARIABLE)
    assert not (folder / "calls").exists()


def test_a_key_that_does_not_sign_is_refused_before_any_work(folder: Path) -> None:
    with pytest.raises(UsageError, match="cosign did not sign: Error: no matching") as caught:
        signing_key(folder / "cosign.key")
    assert caught.value.where == f"--sign {folder / 'cosign.key'}"
    assert "COSIGN_PASSWORD" in caught.value.next_step


LINK = "https://login.example/device?user_code=ABCD-EFGH"
BROWSER = f"""#!/bin/sh
echo "Non-interactive mode detected, using device flow." >&2
echo "Enter the verification code ABCD-EFGH in your browser at: {LINK}" >&2
[ -f "$(dirname "$0")/good" ] || sleep 300
"""


def test_by_an_identity_no_browser_is_waited_for_where_nobody_sees_the_link(folder: Path) -> None:
    (folder / "cosign").write_text(BROWSER)
    with pytest.raises(NetworkError, match="asks for a browser") as caught:
        sign(repository(Memory()), DIGEST, IDENTITY)
    assert "id-token: write" in caught.value.next_step


def test_by_an_identity_the_link_is_shown_in_a_terminal(
        folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cosign").write_text(BROWSER)
    (folder / "good").touch()
    monkeypatch.setattr("builder.promotion.signing._is_watched", lambda: True)
    sign(repository(Memory()), DIGEST, IDENTITY)
    assert f"ABCD-EFGH in your browser at: {LINK}" in capsys.readouterr().err


def test_by_an_identity_that_is_known_nothing_is_asked(folder: Path) -> None:
    with pytest.raises(NetworkError, match="cosign did not sign: Error: no matching"):
        sign(repository(Memory()), DIGEST, IDENTITY)
    (folder / "good").touch()
    sign(repository(Memory()), DIGEST, IDENTITY)
    assert (folder / "calls").read_text().splitlines()[-1] == (
        f"sign --yes 127.0.0.1:5000/team/cpu@{DIGEST}")


def test_without_cosign_a_key_is_refused_before_any_work(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder / "empty"))
    with pytest.raises(UsageError, match="cosign is not installed"):
        require_key(folder / "cosign.key", "--key")
