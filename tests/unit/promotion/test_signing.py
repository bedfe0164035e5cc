"""Signatures by cosign: what it is asked, and what its refusal becomes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder.errors import NetworkError, UsageError
from builder.promotion.signing import (
    SIGNATURE_CHARS,
    is_signed,
    sign,
    sign_text,
    signature_problem,
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
