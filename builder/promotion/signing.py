"""Signatures of images by the user's own cosign, with a key pair that lies on this machine.

No transparency log and no online identity is asked for: what is offline stays offline. cosign takes
the password of the key from COSIGN_PASSWORD or the terminal.
"""

from __future__ import annotations

from pathlib import Path

from builder import process
from builder.errors import NetworkError, UsageError
from builder.process import CommandError
from builder.registry.repository import Repository
from builder.text import one_line

COSIGN_S = 300.0
SHOWN = 300  # characters of what cosign says


def sign(repository: Repository, digest: str, key: Path) -> None:
    """Sign a manifest, and put the signature beside it; raises NetworkError, UsageError."""
    _refuse_missing(key)
    try:
        process.run(["cosign", "sign", "--key", key, "--tlog-upload=false", "--yes",
                     f"{repository.name}@{digest}"], timeout=COSIGN_S)
    except CommandError as error:
        raise NetworkError(f"cosign did not sign: {_said(error)}", where=f"{repository.name}@"
                           f"{digest}", next_step="is this the private key, and is its password in "
                           "COSIGN_PASSWORD?") from error


def signature_problem(repository: Repository, digest: str, key: Path) -> str:
    """Return why no signature of a manifest is by this key; nothing where one is."""
    _refuse_missing(key)
    done = process.run(["cosign", "verify", "--key", key, "--insecure-ignore-tlog=true",
                        f"{repository.name}@{digest}"], check=False, timeout=COSIGN_S)
    if done.returncode == 0:
        return ""
    return f"no signature is by {key.name}: {one_line(_first(done.stderr), SHOWN)}"


def _first(text: str) -> str:
    return next((line for line in text.splitlines() if line.startswith("Error:")),
                text.strip() or "cosign said nothing")


def _said(error: CommandError) -> str:
    return one_line(_first(error.result.stderr), SHOWN)


def _refuse_missing(key: Path) -> None:
    if not key.is_file():
        raise UsageError("there is no such key", where=str(key),
                         next_step="make a pair: `cosign generate-key-pair`")
