"""Signatures of images and records by the user's own cosign, with a key pair on this machine.

With a key no transparency log is asked for: what is offline stays offline. ``identity`` in its
place lets cosign ask Sigstore who the caller is: a token of the machine says so, or somebody in a
browser, by the link that cosign prints where its input is no terminal. cosign takes the password of
the key from COSIGN_PASSWORD. What is signed of a record is its digest, the text ``sha256:…`` that
stands in it, so plain cosign can sign and verify it too.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from builder import console, process
from builder.errors import NetworkError, UsageError
from builder.limits import LINE_BYTES
from builder.process import CommandError
from builder.registry.repository import Repository
from builder.text import one_line

SIGNATURE_TYPE = "application/vnd.sparkyard.signature.v1"  # attached to what is signed
SIGNATURE_CHARS = 4096  # one by ECDSA has 96 in base64
COSIGN_S = 300.0
BROWSER_S = 330.0  # the code that is to be entered there is valid for 300
BROWSER = re.compile(r"device flow|verification code", re.IGNORECASE)  # as cosign 1 to 3 say it
SHOWN = 300  # characters of what cosign says
KEPT = 100  # lines of it
TRIAL = "sparkyard looks whether this key signs\n"
KEY_VARIABLE = "SPARKYARD_SIGN_KEY"
IDENTITY = Path("identity")  # in a key's place


def signing_key(asked: Path | None) -> Path | None:
    """Return the private key that signs what is pushed: the one asked for, else the environment's.

    Raises UsageError where it or cosign is missing, or where it does not sign a trial: it is a
    public key, or its password is wrong. So nothing is pushed before that is known. An identity
    signs no trial, which would stand in a public log.
    """
    named = os.environ.get(KEY_VARIABLE)
    key = asked or (Path(named) if named else None)
    option = "--sign" if asked else KEY_VARIABLE
    if key == IDENTITY:
        require_cosign(f"{option} {key}")
    elif key is not None:
        require_key(key, option)
        try:
            sign_text(TRIAL, key)
        except NetworkError as error:
            raise UsageError(error.what, where=f"{option} {key}", next_step=error.next_step
                             ) from error
    return key


def require_key(key: Path, option: str) -> None:
    """Raise UsageError where a key or cosign is not there; call it before long work."""
    _refuse_missing(key, option)
    require_cosign(f"{option} {key}")


def require_cosign(where: str) -> None:
    """Raise UsageError where cosign is not installed."""
    if not shutil.which("cosign"):
        raise UsageError("the program cosign is not installed: it makes and checks signatures",
                         where=where, next_step="install it (Debian has it from trixie on), or "
                         "leave the key out")


def sign(repository: Repository, digest: str, key: Path) -> None:
    """Sign a manifest, and put the signature beside it; raises NetworkError, UsageError."""
    name = f"{repository.name}@{digest}"
    if key == IDENTITY:
        _sign_by_identity(name)
        return
    _refuse_missing(key)
    try:
        process.run(["cosign", "sign", "--key", str(key), "--tlog-upload=false", "--yes", name],
                    timeout=COSIGN_S)
    except CommandError as error:
        raise NetworkError(f"cosign did not sign: {said(error.result.stderr)}", where=name,
                           next_step="is this the private key, and is its password in "
                           "COSIGN_PASSWORD?") from error


def _sign_by_identity(name: str) -> None:
    """Let cosign sign, and show what it says: the link, where a browser is to say who signs.

    Raises NetworkError, and at once where it waits for a browser and nobody sees the link.
    """
    last: deque[str] = deque(maxlen=KEPT)
    with process.stream(["cosign", "sign", "--yes", name]) as child:
        try:
            for line in _lines(child):
                last.append(line)
                if BROWSER.search(line) and not _is_watched():
                    raise NetworkError(
                        "cosign asks for a browser to know who signs, and there is no terminal",
                        where=name, next_step="run it in a terminal, give cosign a token "
                        "(SIGSTORE_ID_TOKEN; a workflow on GitHub needs id-token: write), or sign "
                        "with a key")
                console.info(line)
            code = child.wait(COSIGN_S)
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            last.append(f"Error: {error}")
            code = process.OVERDUE
    if code:
        told = said("\n".join(last))
        raise NetworkError(f"cosign did not sign: {told}", where=name,
                           next_step="can this machine reach Sigstore, and who is it there?")


def _lines(child: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield what cosign says, line by line; raises TimeoutError when a browser took too long."""
    assert child.stdout is not None
    reader = io.BufferedReader(process.TimedReader(child.stdout, BROWSER_S, BROWSER_S))
    while data := reader.readline(LINE_BYTES):
        yield one_line(data.decode("utf-8", "replace"), SHOWN)


def _is_watched() -> bool:
    return console.ERR.is_terminal


def signature_problem(repository: Repository, digest: str, key: Path) -> str:
    """Return why no signature of a manifest is by this key; nothing where one is."""
    _refuse_missing(key)
    done = process.run(["cosign", "verify", "--key", key, "--insecure-ignore-tlog=true",
                        f"{repository.name}@{digest}"], check=False, timeout=COSIGN_S)
    if done.returncode == 0:
        return ""
    return f"no signature is by {key.name}: {said(done.stderr)}"


def sign_text(text: str, key: Path) -> str:
    """Return cosign's signature of a text, in base64; raises NetworkError, UsageError."""
    _refuse_missing(key)
    try:
        return process.run(["cosign", "sign-blob", "--key", key, "--tlog-upload=false", "--yes",
                            "-"], stdin=text.encode(), timeout=COSIGN_S).stdout.strip()
    except CommandError as error:
        raise NetworkError(f"cosign did not sign: {said(error.result.stderr)}", where=str(key),
                           next_step="is this the private key, and is its password in "
                           "COSIGN_PASSWORD?") from error


def is_signed(text: str, signature: str, key: Path) -> bool:
    """Say whether a signature of a text is by this public key."""
    _refuse_missing(key)
    if len(signature) > SIGNATURE_CHARS:
        return False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "signature")
        path.write_text(signature, encoding="utf-8")
        done = process.run(["cosign", "verify-blob", "--key", key, "--signature", path,
                            "--insecure-ignore-tlog=true", "-"], check=False, stdin=text.encode(),
                           timeout=COSIGN_S)
    return done.returncode == 0


def said(errors: str) -> str:
    """Return what cosign says went wrong, in a line."""
    first = next((line for line in errors.splitlines() if line.startswith("Error:")),
                 errors.strip() or "cosign said nothing")
    return one_line(first, SHOWN)


def _refuse_missing(key: Path, option: str = "") -> None:
    if not key.is_file():
        raise UsageError("there is no such key", where=f"{option} {key}".lstrip(),
                         next_step="make a pair: `cosign generate-key-pair`")
