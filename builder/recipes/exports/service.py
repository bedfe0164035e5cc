"""What every export says: the image, the command, the address, the user and the mounts.

Safe unless asked otherwise: the loopback address, no capability, no new privileges, the caller's
own user, no secret in the text, and a model that is complete is mounted read-only.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from builder.cache_folder import named_folder
from builder.errors import UsageError
from builder.matrix.cells import Cell
from builder.recipes.hub import hub_folder, is_complete
from builder.recipes.launch import (
    COMPILE_CACHE,
    TEMPLATE_FILE,
    launch_key,
    served_path,
    server_command,
    template_steps,
)
from builder.recipes.models import Recipe
from builder.text import LINE_ENDS, is_unseen, one_line

LOOPBACK = "127.0.0.1"
PUBLIC = "0.0.0.0"  # noqa: S104 - only where the user asks for it
HUB = "/cache/huggingface"
SHARED_MEMORY = {True: "16g", False: "1g"}  # by whether it is a CUDA cell
# The user has no entry in the image's passwd: a home that can be written, and a name to find.
# Nothing is written to the working folder, but the image's own belongs to root.
USER_ENVIRONMENT = {"HOME": "/tmp", "USER": "vllm"}  # noqa: S108 - inside the container
SHOWN = 200  # characters of a path in a message
WORKING_FOLDER = "/tmp"  # noqa: S108 - inside the container
KEY = "VLLM_API_KEY"


class Holds(StrEnum):
    """What a mount holds."""

    MODEL = "model"
    HUB = "hub"
    COMPILED = "compiled"
    TEMPLATE = "template"


@dataclass(frozen=True)
class Mount:
    """A file or folder of the host in the container.

    ``source`` is a path of this host for a model in a folder, else a name below the user's cache.
    """

    holds: Holds
    source: str
    target: str
    read_only: bool


@dataclass(frozen=True)
class Asked:
    """What the user asked for: the address, a file with the API key, how many machines."""

    host: str = LOOPBACK
    key_file: str = ""
    nodes: int = 1


@dataclass(frozen=True)
class Image:
    """A reference and what it is: by digest, an immutable tag, or a name that moves."""

    reference: str
    remark: str


@dataclass(frozen=True)
class Service:
    """One recipe, ready to be written for a tool; ``steps`` are shell lines to run before."""

    recipe: Recipe
    cell: Cell
    image: Image
    asked: Asked
    command: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    steps: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name of the service, of its container and of its unit."""
        return self.recipe.name

    @property
    def needs_hub(self) -> bool:
        """Say whether the server may have to download the model."""
        return any(mount.holds is Holds.HUB and not mount.read_only for mount in self.mounts)

    @property
    def shared_memory(self) -> str:
        """Return the limit of /dev/shm."""
        return SHARED_MEMORY[self.cell.is_cuda]


def plan_service(recipe: Recipe, cell: Cell, image: Image, root: Path,
                 asked: Asked = Asked()) -> Service:
    """Decide what the exports say; raises UsageError for an address that is none."""
    host = checked_address(asked.host)
    for text in (asked.key_file, image.reference, str(root), str(hub_folder()),
                 str(named_folder())):
        _refuse_control(text)
    complete = is_complete(recipe)
    mounts = _mounts(recipe, cell, root, complete=complete)
    holds = {mount.holds for mount in mounts}
    environment = {
        **USER_ENVIRONMENT,
        **({"HF_HOME": HUB} if Holds.HUB in holds else {}),
        **({"HF_HUB_OFFLINE": "1"} if Holds.HUB in holds and complete else {}),
        **({"VLLM_CACHE_ROOT": COMPILE_CACHE} if Holds.COMPILED in holds else {}),
        **dict(sorted(recipe.environment.items()))}
    return Service(recipe, cell, image, replace(asked, host=host), server_command(recipe, cell),
                   environment, mounts, template_steps(recipe),
                   _remarks(recipe, image, host, asked))


def checked_address(host: str) -> str:
    """Return an address in its usual spelling; raises UsageError for one that is none."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError as error:
        raise UsageError(f'"{host}" is not an IP address', where="--host",
                         next_step="give an address of this machine; --public means all of them"
                         ) from error


def _refuse_control(text: str) -> None:
    """Refuse a path that would end a line of the export: what follows it would be a line, too."""
    if any(is_unseen(char) or char in LINE_ENDS for char in text):
        raise UsageError("a path with line ends or control characters cannot be exported",
                         where=one_line(text, SHOWN), next_step="give it another name")


def _mounts(recipe: Recipe, cell: Cell, root: Path, *, complete: bool) -> tuple[Mount, ...]:
    mounts = []
    if recipe.model.path:
        mounts.append(Mount(Holds.MODEL, str(root / recipe.model.path), served_path(recipe),
                            read_only=True))
    else:
        mounts.append(Mount(Holds.HUB, "", HUB, read_only=complete))
    if cell.is_cuda:
        mounts.append(Mount(Holds.COMPILED, f"vllm/{recipe.name}-{launch_key(recipe, cell)}",
                            COMPILE_CACHE, read_only=False))
    if recipe.chat_template and recipe.chat_template.replace:
        mounts.append(Mount(Holds.TEMPLATE, "chat_template.jinja", TEMPLATE_FILE, read_only=True))
    return tuple(mounts)


def _remarks(recipe: Recipe, image: Image, host: str, asked: Asked) -> tuple[str, ...]:
    """Return what a reader of the export has to know, one sentence each."""
    remarks = [f"Image: {image.remark}."]
    if not recipe.model.pinned:
        remarks.append(f"The model is not pinned: revision {recipe.model.revision} moves "
                       f"({recipe.model.unpinned_because}).")
    if not ipaddress.ip_address(host).is_loopback and not asked.key_file:
        remarks.append(f"The server listens on {host} and asks for no API key: everybody who "
                       "reaches it can use it. --api-key-file FILE asks for one.")
    if asked.key_file:
        remarks.append(f"The API key is the line {KEY}=... of the file {asked.key_file}; "
                       "it is in no command line.")
    return tuple(remarks)


def bracketed(host: str) -> str:
    """Return an address as it stands before a port: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def single(service: Service, format_name: str) -> None:
    """Refuse several machines where the tool starts one container; raises UsageError."""
    if service.asked.nodes > 1:
        raise UsageError(f"{format_name} starts one container on one machine", where="--nodes",
                         next_step="sparkrun, eugr and kubernetes start several")
