"""An image from this machine's registry to the Docker engine of another machine, through ssh.

``registry here <- the tunnel of ssh <- the other engine pulls, layer by layer``

Nothing listens on the network: the tunnel ends on the other machine's loopback interface, and it is
closed when the pull is complete or has failed.
"""

from __future__ import annotations

import io
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

from builder import process
from builder.engine.client import Engine, RemoteLayer
from builder.errors import NetworkError, UsageError, command
from builder.limits import LINE_BYTES, SSH_S
from builder.registry.reference import LOOPBACK, parse
from builder.text import one_line, redact

HOST = re.compile(r"([A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9_][\w.-]*")
READY = "sparkyard: the tunnel is open"
SHOWN = 300  # characters of what ssh says
_PORT = re.compile(r"Allocated port (\d{1,5}) for remote forward")
_LAYER = re.compile(r"([0-9a-f]{12}): (Already exists|Download complete|Pull complete)")
OPTIONS = ("BatchMode=yes", "ExitOnForwardFailure=yes", "ConnectTimeout=10",
           "ServerAliveInterval=15", "LogLevel=INFO", "ControlPath=none")


@dataclass(frozen=True)
class Image:
    """What a peer is to have: an image in this machine's registry, and its names.

    ``reference`` names registry, repository and a tag; ``config`` is the image's id.
    """

    reference: str
    digest: str
    config: str
    layers: tuple[RemoteLayer, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Received:
    """What a peer came to have: its engine's image id, and the layers that it pulled for that."""

    host: str
    id: str
    pulled: tuple[RemoteLayer, ...]
    seconds: float

    @property
    def bytes(self) -> int:
        """Return the compressed bytes that went over."""
        return sum(layer.size for layer in self.pulled)


def check_host(host: str) -> str:
    """Return a peer's name as ssh knows it; raises UsageError for an option or an address."""
    if not HOST.fullmatch(host):
        raise UsageError("this is not a name for ssh", where=f"--to {one_line(host, SHOWN)}",
                         next_step="give HOST or USER@HOST; a port or a key of its own goes "
                         "into ~/.ssh/config")
    return host


def check_registry(registry: str) -> None:
    """Raise UsageError where the registry is not on this machine: then a peer pulls by itself."""
    if not LOOPBACK.fullmatch(registry.partition("/")[0]):
        raise UsageError("the registry is not on this machine, and others can pull from it",
                         where=registry, next_step=f"push the image ({command('push', 'CELL')}), "
                         "then run `docker pull` on the other machine")


def reach(host: str, registry: str) -> None:
    """Log in to a peer and open its tunnel once, so that nothing is pushed in vain.

    Raises NetworkError where ssh fails, EngineError where no engine answers there.
    """
    with tunnel(host, _port(registry)):
        _engine(host)


def bring(image: Image, host: str) -> Received:
    """Make the engine of ``host`` pull what it lacks of an image, and name it as it is named here.

    Raises NetworkError where ssh cannot open the tunnel, and what a pull raises.
    """
    started = time.monotonic()
    source = parse(image.reference)
    with tunnel(host, _port(source.host)) as there:
        peer = _engine(host)
        present = peer.inspect(image.names[0])
        if present and present.id in (image.config, image.digest):
            return Received(host, present.id, (), time.monotonic() - started)
        name = f"127.0.0.1:{there}/{source.repository}@{image.digest}"
        came: set[str] = set()
        facts = peer.pull(name, on_line=lambda line: _note(line, came))
        for own in image.names:
            peer.tag(facts.id, own)
        peer.remove(name)
    pulled = tuple(layer for layer in image.layers if layer.digest.partition(":")[2][:12] in came)
    return Received(host, facts.id, pulled, time.monotonic() - started)


def _port(registry: str) -> int:
    port = registry.partition("/")[0].rpartition(":")[2]
    return int(port) if port.isdigit() else 80


def _engine(host: str) -> Engine:
    return Engine.connect(host=f"ssh://{host}")


@contextmanager
def tunnel(host: str, port: int) -> Iterator[int]:
    """Let ``host`` reach a port of this machine's loopback for the length of the block.

    Gives the port of the other machine's loopback, which its sshd chooses.
    """
    words = ["ssh", *(word for option in OPTIONS for word in ("-o", option)), "-T",
             "-R", f"127.0.0.1:0:127.0.0.1:{port}", "--", host,
             f"echo '{READY}'; exec cat >/dev/null"]  # ends with our end of the pipe
    with process.stream(words, stdin=subprocess.PIPE) as child:
        assert child.stdout is not None
        reader = process.TimedReader(child.stdout, SSH_S, SSH_S)
        yield _allocated(cast(BinaryIO, io.BufferedReader(reader, 1 << 12)), host)


def _allocated(output: BinaryIO, host: str) -> int:
    """Read what ssh says until the tunnel is open; return the port."""
    said: list[str] = []
    port = 0
    try:
        while line := output.readline(LINE_BYTES):
            text = line[:4 * SHOWN].decode("utf-8", "replace").strip()
            if found := _PORT.search(text):
                port = int(found[1])
            elif text == READY and port:
                return port
            elif text:
                said = [*said[-4:], "it named no port" if text == READY else text]
    except TimeoutError as error:
        said.append(str(error))
    raise _no_tunnel(host, said)


def _no_tunnel(host: str, said: Sequence[str]) -> NetworkError:
    reason = one_line(redact(" / ".join(said)), SHOWN) or "it ended without a word"
    return NetworkError(f"ssh cannot open a tunnel: {reason}", where=host,
                        next_step=f"`ssh {host} docker version` must work without a question: log "
                        f"in once by hand, and copy your key with `ssh-copy-id {host}`")


def _note(line: str, came: set[str]) -> None:
    """Note a layer that the peer took in, from a line of ``docker pull``."""
    found = _LAYER.match(line)
    if found and found[2] != "Already exists":
        came.add(found[1])
