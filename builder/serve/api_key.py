"""The API key of a server: from a file, so that it stands on no command line and in no label.

vLLM takes a key as ``--api-key``, which every user of the machine can read, or as the variable
``VLLM_API_KEY``, which ``docker inspect`` shows. So the file is mounted read-only, and a shell in
the container puts its content into the variable before it becomes the server.
"""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from builder import console
from builder.errors import UsageError
from builder.limits import SETTINGS_BYTES, read_file

VARIABLE = "VLLM_API_KEY"
INSIDE = "/run/secrets/vllm-api-key"
# $0 is "sh", the server's words follow. A key file is one line: the key, or VARIABLE=key. Without a
# key vLLM would serve everybody: a file that cannot be read ends the container instead.
WRAPPER = (f'{VARIABLE}="$(head -n 1 {INSIDE} | sed "s/^{VARIABLE}=//")" && test -n "${VARIABLE}" '
           f'&& export {VARIABLE} && exec "$@"')
LEAST = 8  # characters: fewer are guessed, and cannot be kept out of output


def with_key(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that start a server with the key of the mounted file."""
    return ("sh", "-c", WRAPPER, "sh", *command)


def read_key(file: Path) -> str:
    """Return the key that a file holds; raises UsageError where there is none that can be used."""
    try:
        text = read_file(file, SETTINGS_BYTES, "file with an API key").decode("ascii", "strict")
    except OSError as error:
        raise _refused(file, f"the file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _refused(file, "the key has characters that no HTTP header can have") from error
    line = text.removesuffix("\n")  # the container's shell reads it byte for byte, as is done here
    if line.strip() != line or len(line.splitlines()) > 1:
        raise _refused(file, "it has to be one line with the key and nothing else: no space or "
                       "empty line, and no Windows line end")
    key = line.removeprefix(f"{VARIABLE}=")
    if len(key) < LEAST or not key.isprintable() or " " in key:
        raise _refused(file, f"a key has at least {LEAST} characters and no spaces")
    return key


def check_file(file: Path) -> None:
    """Refuse a file without a usable key; warn of one that other users can read."""
    read_key(file)
    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH) and os.name == "posix":
        console.warn("other users can read the API key: "
                     f"chmod 600 {shlex.quote(str(file))}")


def _refused(file: Path, what: str) -> UsageError:
    there = os.access(file, os.F_OK)  # no command is shown that would replace the user's own file
    return UsageError(what, where=f"--api-key-file {file}", next_step=(
        "name a file with one line, the key; a new one: " if there else "make one: ")
        + f"(umask 077; openssl rand -hex 32 > {'key' if there else shlex.quote(str(file))})")
