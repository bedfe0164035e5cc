"""Signatures by an identity: what cosign is asked, and which halves of one are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import NetworkError, UsageError
from builder.promotion.identity import Signer, identity_problem, signer_of
from builder.promotion.signing import IDENTITY, KEY_VARIABLE, sign, signing_key
from tests.unit.fake_repository import Memory, repository
from tests.unit.promotion.test_signing import DIGEST, folder

__all__ = ["folder"]
ISSUER = "https://token.example"


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_an_identity_signs_without_a_key_and_no_trial(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "identity")
    assert signing_key(None) == IDENTITY
    assert not (folder / "calls").exists()
    (folder / "good").touch()
    sign(repository(Memory()), DIGEST, IDENTITY)
    assert calls(folder) == [f"sign --yes 127.0.0.1:5000/team/cpu@{DIGEST}"]
    (folder / "good").unlink()
    with pytest.raises(NetworkError, match="cosign did not sign") as caught:
        sign(repository(Memory()), DIGEST, IDENTITY)
    assert "Sigstore" in caught.value.next_step


def test_the_log_is_left_out_with_roots_of_ones_own_alone(folder: Path) -> None:
    (folder / "good").touch()
    for roots in (None, folder / "roots.pem"):
        assert identity_problem(repository(Memory()), DIGEST, Signer("me", ISSUER, roots)) == ""
    public, own = calls(folder)
    assert "--certificate-identity me --certificate-oidc-issuer https://token.example" in public
    assert "insecure" not in public
    assert f"--ca-roots {folder}/roots.pem --insecure-ignore-tlog=true" in own


def test_a_signature_by_somebody_else_is_named(folder: Path) -> None:
    problem = identity_problem(repository(Memory()), DIGEST, Signer("me", ISSUER))
    assert problem == "no signature is by me: Error: no matching signatures"


def test_half_an_identity_is_refused(folder: Path) -> None:
    assert signer_of(None, None, None) is None
    for name, issuer, roots in (("me", None, None), (None, ISSUER, None),
                                (None, None, folder / "cosign.key")):
        with pytest.raises(UsageError, match="a name and the issuer"):
            signer_of(name, issuer, roots)
    with pytest.raises(UsageError, match="no such file"):
        signer_of("me", ISSUER, folder / "gone.pem")
    assert signer_of("me", ISSUER, folder / "cosign.key") == Signer(
        "me", ISSUER, folder / "cosign.key")
