"""What the engine's own words mean: the known failures of Docker, buildx and registries, named.

Docker's exit status says nothing about the kind of a failure, so its text has to be read. Each
pattern is one that a real engine printed; an unknown failure is shown as it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from builder.errors import DiskError, EngineError, NetworkError, SparkyardError, command
from builder.text import cut_line, is_binary, redact

TAIL_LINES = 15
LINE_CHARS = 500  # of a line that is shown; a registry's refusal with its URL has 300
ENGINE_STEP = f"run {command('engine')}, or point DOCKER_HOST at a running engine"
LOGIN_STEP = "run `docker login REGISTRY`, or choose another registry: SPARKYARD_REGISTRY"


@dataclass(frozen=True)
class Known:
    """A failure that is recognised by any of ``patterns`` in the text, and its message."""

    patterns: tuple[str, ...]
    error: type[SparkyardError]
    what: str
    next_step: str


# The first that matches counts: a full disk also ends builds and connections.
KNOWN = (
    Known((r"no space left on device", r"disk quota exceeded"), DiskError,
          "the disk of the Docker engine is full",
          "free some space: `docker buildx prune`, `docker image prune`, "
          + command("cache", "prune")),
    Known((r"permission denied while trying to connect",), EngineError,
          "this user has no permission to use the Docker engine",
          "add the user to the group: `sudo usermod -aG docker $USER`, then log in again"),
    Known((r"cannot connect to the docker daemon", r"error during connect",
           r"dial unix .*(no such file|connection refused)",
           r"failed to connect to the docker api"),
          EngineError, "cannot connect to the Docker engine", ENGINE_STEP),
    Known((r"code = unavailable", r"closing transport", r"error reading from server",
           r"transport is closing", r"broken pipe", r"^error: (unexpected )?eof$",
           r"failed to receive status", r"context canceled"),
          EngineError, "the connection to the Docker engine was lost",
          f"check the engine's log, start it ({command('engine')}), then run the same command "
          "again"),
    Known((r"port is already allocated", r"address already in use"), EngineError,
          "its port is in use",
          f"{command('status')} shows our servers; choose another port with --port"),
    Known((r"cannot assign requested address",), EngineError,
          "this machine does not have the address",
          "give one of its own with --host: `ip -brief address` lists them"),
    Known((r"no such container",), EngineError, "the container was removed by somebody else",
          "run the same command again"),
    Known((r"could not select device driver", r"nvidia-container-cli: initialization error",
           r"failed to discover GPU vendor from CDI"), EngineError,
          "the Docker engine offers no GPU",
          "use a machine with a GPU and the NVIDIA Container Toolkit, or test the image without "
          f"one: {command('smoke', 'CELL', '--level', '1a')}"),
    Known((r"exec format error",), EngineError,
          "the Docker engine cannot run programs of the image's platform",
          f"run {command('engine')} to set up arm64 emulation, or name an arm64 builder: "
          "--builder NAME"),
    Known((r"no such image",), EngineError, "the Docker engine does not have this image",
          f"build it: {command('build', 'CELL')}, or pull it"),
    Known((r"no builder .* found", r"failed to find (the )?builder"), EngineError,
          "there is no such buildx builder", "list the builders: `docker buildx ls`"),
    Known((r"unknown command: docker buildx", r"'buildx' is not a docker command",
           r"unknown shorthand flag: 'f' in -f"), EngineError,
          "the docker client has no buildx plugin", f"run {command('engine')}"),
    Known((r"toomanyrequests", r"too many requests", r"\b429\b"), NetworkError,
          "the registry's rate limit is used up (HTTP 429)",
          "wait and try again, or log in for a higher limit: `docker login REGISTRY`"),
    Known((r"unauthorized", r"authentication required", r"no basic auth credentials",
           r"\b401\b"), NetworkError,
          "the registry requires a login, or rejects the one it was given (HTTP 401)", LOGIN_STEP),
    Known((r"denied: ", r"access denied", r"\b403\b", r"forbidden", r"insufficient_scope"),
          NetworkError, "the registry refused access (HTTP 403)",
          "check that this account may write to and read from this place; or choose another "
          "registry: SPARKYARD_REGISTRY"),
    Known((r"manifest unknown", r"manifest for .* not found", r"name unknown",
           r"repository .* not found", r": not found$"),
          NetworkError, "the registry does not have this image",
          "push it first, or check its name"),
    Known((r"received unexpected http status: 5", r"unexpected status.*\b5\d\d\b",
           r"\b50[0-4] (internal|bad|service|gateway)"), NetworkError,
          "the registry failed (HTTP 5xx)",
          "try again later; SPARKYARD_REGISTRY names another registry"),
    Known((r"server gave http response to https client", r"no such host", r"connection refused",
           r"i/o timeout", r"network is unreachable", r"tls handshake", r"x509:",
           r"received unexpected http status", r"connection reset", r"could not resolve",
           r"temporary failure in name resolution"),
          NetworkError, "cannot connect to the registry",
          "check its address and the network; SPARKYARD_REGISTRY names another registry"),
)


def explain(text: str, doing: str, where: str = "") -> SparkyardError:
    """Turn what Docker printed while ``doing`` something into the error to raise.

    Returns DiskError, EngineError or NetworkError. The last lines of ``text`` are always kept,
    without passwords and control characters.
    """
    shown = redact("\n".join(map(_line, text.strip().splitlines()[-TAIL_LINES:])))
    where = redact(where)
    for known in KNOWN:
        if any(re.search(pattern, text, re.IGNORECASE | re.MULTILINE)
               for pattern in known.patterns):
            return known.error(f"{doing}: {known.what}\n{shown}".rstrip(), where=where,
                               next_step=known.next_step)
    return EngineError(f"{doing} failed\n{shown}".rstrip(), where=where,
                       next_step="read the engine's message above; `docker info` shows whether "
                       "the engine works")


def _line(text: str) -> str:
    return "(binary data)" if is_binary(text) else cut_line(text, LINE_CHARS)
