"""Signatures by an identity: a certificate names who signed, and somebody vouches for it.

That is Sigstore, which cosign asks by itself, or a certificate authority of one's own, whose roots
are at hand; then no log and no network but the registry is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from builder import process
from builder.errors import UsageError
from builder.promotion.signing import COSIGN_S, require_cosign, said
from builder.registry.repository import Repository

OWN_ROOTS = ("--insecure-ignore-tlog=true", "--insecure-ignore-sct=true")


@dataclass(frozen=True)
class Signer:
    """Who must have signed, who vouches for that, and the roots where they are not Sigstore's."""

    name: str
    issuer: str
    roots: Path | None = None


def signer_of(name: str | None, issuer: str | None, roots: Path | None) -> Signer | None:
    """Return the signer that options name; raises UsageError for half of one, or without cosign."""
    if not (name or issuer or roots):
        return None
    if not (name and issuer):
        raise UsageError("an identity is a name and the issuer that vouches for it",
                         where="--identity, --issuer", next_step="give both")
    if roots and not roots.is_file():
        raise UsageError("there is no such file", where=f"--roots {roots}",
                         next_step="name the certificates of the authority, as PEM")
    require_cosign(f"--identity {name}")
    return Signer(name, issuer, roots)


def identity_problem(repository: Repository, digest: str, signer: Signer) -> str:
    """Return why no signature of a manifest is by this identity; nothing where one is."""
    by = ["--ca-roots", str(signer.roots), *OWN_ROOTS] if signer.roots else []
    done = process.run(["cosign", "verify", "--certificate-identity", signer.name,
                        "--certificate-oidc-issuer", signer.issuer, *by,
                        f"{repository.name}@{digest}"], check=False, timeout=COSIGN_S)
    return f"no signature is by {signer.name}: {said(done.stderr)}" if done.returncode else ""
