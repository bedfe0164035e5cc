"""What the engine's own words mean: the known failures of Docker, buildx and registries, named.

Docker's exit status says nothing about the kind of a failure, so its text has to be read. Each
pattern is one that a real engine printed; whatever is not known is shown as it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from builder.errors import DiskError, EngineError, NetworkError, SparkyardError

TAIL_LINES = 15
ENGINE_STEP = "run `nox -s engine`, or point DOCKER_HOST at a running engine"


@dataclass(frozen=True)
class Known:
    """A failure that is recognised: any of ``marks`` in the text, and how it is told."""

    marks: tuple[str, ...]
    error: type[SparkyardError]
    what: str
    next_step: str


# The first that matches is told: a full disk also ends builds and connections.
KNOWN = (
    Known((r"no space left on device", r"disk quota exceeded"), DiskError,
          "the engine's disk is full",
          "free some: `docker buildx prune`, `docker image prune`, `sparkyard cache --prune`"),
    Known((r"permission denied while trying to connect",), EngineError,
          "this user may not speak to the Docker engine",
          "join its group: sudo usermod -aG docker $USER, log in again"),
    Known((r"cannot connect to the docker daemon", r"error during connect",
           r"dial unix .*(no such file|connection refused)",
           r"failed to connect to the docker api"),
          EngineError, "no Docker engine answers", ENGINE_STEP),
    Known((r"code = unavailable", r"closing transport", r"error reading from server",
           r"transport is closing", r"broken pipe", r"^error: (unexpected )?eof$",
           r"failed to receive status", r"context canceled"),
          EngineError, "the Docker engine stopped half-way",
          "see the engine's own log, bring it up (`nox -s engine`), run the same command again"),
    Known((r"could not select device driver", r"nvidia-container-cli: initialization error",
           r"failed to discover GPU vendor from CDI"), EngineError,
          "this engine has no GPU to give",
          "run it on a machine with one and NVIDIA's container toolkit, or look into the image "
          "without: `sparkyard smoke CELL --level 1a`"),
    Known((r"exec format error",), EngineError,
          "this engine cannot run programs of the image's platform",
          "run `nox -s engine` for arm64 emulation, or name an arm64 builder: --builder NAME"),
    Known((r"no such image",), EngineError, "the engine has no such image",
          "build it: `sparkyard build CELL`, or pull it"),
    Known((r"no builder .* found", r"failed to find (the )?builder"), EngineError,
          "there is no such buildx builder", "see `docker buildx ls`"),
    Known((r"unknown command: docker buildx", r"'buildx' is not a docker command",
           r"unknown shorthand flag: 'f' in -f"), EngineError,
          "the docker client has no buildx plugin", "run `nox -s engine`"),
    Known((r"unauthorized", r"denied: ", r"access denied", r"authentication required",
           r"\b40[13] forbidden", r"insufficient_scope"),
          NetworkError, "the registry refused", "log in (`docker login`), or choose another "
          "place: SPARKYARD_REGISTRY"),
    Known((r"manifest unknown", r"manifest for .* not found", r"name unknown",
           r"repository .* not found", r": not found$"),
          NetworkError, "the registry does not have it", "push it first, or check its name"),
    Known((r"server gave http response to https client", r"no such host", r"connection refused",
           r"i/o timeout", r"network is unreachable", r"tls handshake", r"x509:",
           r"received unexpected http status", r"unexpected status.*\b5\d\d\b",
           r"connection reset", r"could not resolve", r"temporary failure in name resolution"),
          NetworkError, "the registry does not answer",
          "check the address and the network; SPARKYARD_REGISTRY names another registry"),
)


def explain(text: str, doing: str, where: str = "") -> SparkyardError:
    """Turn what Docker printed while ``doing`` something into the error to raise.

    Returns DiskError, EngineError or NetworkError; the last lines of ``text`` are always kept.
    """
    tail = "\n".join(line for line in text.strip().splitlines()[-TAIL_LINES:])
    for known in KNOWN:
        if any(re.search(mark, text, re.IGNORECASE | re.MULTILINE) for mark in known.marks):
            return known.error(f"{doing}: {known.what}\n{tail}".rstrip(), where=where,
                               next_step=known.next_step)
    return EngineError(f"{doing} failed\n{tail}".rstrip(), where=where)
