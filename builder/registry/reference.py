"""An image's name taken apart: which registry, which repository, which tag."""

from __future__ import annotations

import re
from dataclasses import dataclass

from builder.errors import UsageError
from builder.model import PATH_PART

LOOPBACK = re.compile(r"(127(\.\d+){3}|localhost|\[::1\])(:\d+)?")
_HOST = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::\d+)?")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# registry:port/path/name:tag@digest, as https://github.com/distribution/reference has it
_REFERENCE = re.compile(
    rf"(?:{_HOST.pattern}/)?{PATH_PART}(?:/{PATH_PART})*(?::\w[\w.-]{{0,127}})?"
    r"(?:@(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}))?", re.ASCII)
HUB = "docker.io"
HUB_API = "registry-1.docker.io"
HUB_LOGIN = "https://index.docker.io/v1/"  # under this name docker keeps the login to the Hub


@dataclass(frozen=True)
class Reference:
    """``host/repository:tag``."""

    host: str
    repository: str
    tag: str

    def __str__(self) -> str:
        return f"{self.host}/{self.repository}:{self.tag}"

    @property
    def api(self) -> str:
        """Return the registry's address: HTTPS, but for a registry of this machine."""
        host = HUB_API if self.host == HUB else self.host
        return f"{'http' if LOOPBACK.fullmatch(host) else 'https'}://{host}"

    @property
    def login_names(self) -> tuple[str, ...]:
        """Return the names under which docker's configuration may hold the login."""
        return (HUB_LOGIN, HUB) if self.host == HUB else (self.host, f"https://{self.host}")


def parse(text: str) -> Reference:
    """Read ``host/repository:tag``; raises UsageError for anything else."""
    host, _, rest = text.partition("/")
    repository, _, tag = rest.rpartition(":")
    named = "." in host or ":" in host or host == "localhost"
    if not (named and _HOST.fullmatch(host) and _REPOSITORY.fullmatch(repository)
            and _TAG.fullmatch(tag)):
        raise UsageError("this is not an image name with a registry and a tag", where=text,
                         next_step="set `registry` in matrix.toml to HOST/NAMESPACE, or the "
                         "variable SPARKYARD_REGISTRY where that is set")
    return Reference(host, repository, tag)


def is_digest(text: str) -> bool:
    """Say whether a text is the whole digest of a manifest."""
    return DIGEST.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    """Say whether a registry can have a tag of that name."""
    return _TAG.fullmatch(text) is not None


def check_reference(text: str, option: str) -> None:
    """Raise UsageError where ``text`` cannot be the name of an image."""
    if not text.strip():
        raise UsageError("the name of an image is empty", where=option,
                         next_step="give a name; is a variable of your script empty?")
    if not _REFERENCE.fullmatch(text):
        raise UsageError(
            f'"{text}" is not a valid name of an image', where=option,
            next_step="write it like debian:bookworm-slim or registry:5000/team/vllm:tf5, in lower "
            "case and without spaces")
