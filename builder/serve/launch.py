"""A recipe as a server that stays: the container with all its options, decided before any start.

Few rights: the caller's own user, no capability, no new privileges, a read-only root file system,
the loopback address unless asked, a GPU only for a cell that needs one.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from builder.engine.client import ImageFacts
from builder.engine.service import ServiceSpec
from builder.errors import UsageError
from builder.layers import contract
from builder.matrix.cells import Cell
from builder.recipes.exports.service import LOOPBACK, Holds, Mount, Service, bracketed, plan_service
from builder.recipes.exports.service import Asked as Exported
from builder.recipes.exports.service import Image as Named
from builder.recipes.hub import hub_folder
from builder.recipes.launch import PORT as INSIDE_PORT
from builder.recipes.models import Recipe
from builder.record.models import now
from builder.serve import servers as stored
from builder.serve.api_key import INSIDE, with_key
from builder.serve.compiled import CompileCache, compile_cache, label_text
from builder.smoke.template import template_copies
from builder.workspace import Workspace

# Over the read-only root; not executable is Docker's default, and compilers load what they write.
TMPFS = tuple(f"{folder}:exec,mode=1777" for folder in ("/tmp", "/cache", contract.WORKSPACE))  # noqa: S108
NAME_BEFORE = "sparkyard-"  # of a container, and so of its log where it failed
HUB_TOKEN = "/run/secrets/hf-token"  # noqa: S105 - a path


@dataclass(frozen=True)
class Asked:
    """What the user asked for; ``model`` is a folder in the place of the recipe's own."""

    host: str = LOOPBACK
    port: int = INSIDE_PORT
    key_file: Path | None = None
    token_file: Path | None = None
    restart: bool = False
    model: Path | None = None


@dataclass(frozen=True)
class User:
    """Whom the files belong to that a server writes."""

    uid: int
    gid: int
    name: str


@dataclass(frozen=True)
class Launch:
    """One server, ready to be created; ``versions`` are those of the image, for a diagnosis."""

    recipe: Recipe
    cell: Cell
    spec: ServiceSpec
    asked: Asked
    user: User
    compiled: CompileCache | None
    folders: tuple[Path, ...]
    remarks: tuple[str, ...]
    versions: Mapping[str, str]
    emulated: bool = False

    @property
    def digest(self) -> str:
        """Return the digest of all that this server is; the same digest is the same server."""
        return self.spec.labels[stored.LAUNCH]

    def replacing(self, old: str) -> Launch:
        """Return the launch that takes the place of the container ``old``."""
        labels = {**self.spec.labels, stored.REPLACES: old}
        return replace(self, spec=replace(self.spec, labels=labels))


def caller() -> User:
    """Return the user who called, also where that was through sudo."""
    uid, gid, name = (os.environ.get(f"SUDO_{key}", "") for key in ("UID", "GID", "USER"))
    if os.geteuid() == 0 and uid.isdigit() and gid.isdigit():
        return User(int(uid), int(gid), name)
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.geteuid())
    return User(os.geteuid(), os.getegid(), name)


def plan_launch(workspace: Workspace, recipe: Recipe, cell: Cell, image: ImageFacts,
                reference: str, asked: Asked, *, versions: Mapping[str, str], user: User,
                emulated: bool = False) -> Launch:
    """Decide everything; raises UsageError for an address or a folder that cannot be used."""
    service = plan_service(recipe, cell, Named(reference, "on this engine"), workspace.root,
                           Exported(asked.host, str(asked.key_file or "")))
    compiled = compile_cache(workspace.cache, recipe, cell, image.id)
    writable = _writable(service, compiled)
    spec = ServiceSpec(
        image=image.id, name=f"{NAME_BEFORE}{recipe.name}-{secrets.token_hex(2)}",
        command=with_key(service.command) if asked.key_file else service.command,
        labels={}, user=f"{user.uid}:{user.gid}", workdir=contract.WORKSPACE,
        publish=f"{bracketed(service.asked.host)}:{asked.port}:{INSIDE_PORT}",
        shm_size=service.shared_memory, platform=cell.platform,
        gpus="all" if cell.is_cuda else None, env=_environment(service, asked),
        mounts=_read_only(service, asked, workspace, user), writable_mounts=writable, tmpfs=TMPFS)
    digest = _digest(spec, recipe.name, cell.id)
    facts = {stored.RECIPE: recipe.name, stored.CELL: cell.id, stored.MODEL: recipe.model.name,
             stored.REFERENCE: reference, stored.IMAGE: image.id, stored.HOST: service.asked.host,
             stored.PORT: str(asked.port), stored.FLAGS: label_text(service.command),
             stored.LAUNCH: digest, stored.WHEN: now(), stored.BY: user.name,
             stored.RESTART: "yes" if asked.restart else "no",
             **({stored.KEY_FILE: str(asked.key_file)} if asked.key_file else {})}
    return Launch(recipe, cell, replace(spec, labels=facts), asked, user, compiled,
                  tuple(source for source, _ in writable), _remarks(service, asked), versions,
                  emulated)


def _remarks(service: Service, asked: Asked) -> tuple[str, ...]:
    """Return what the user has to know; image and key are told otherwise."""
    lost = ("HF_TOKEN is not handed to the server, since `docker inspect` would show it: run "
             "`hf auth login`, or name a file with --hf-token-file")
    is_needed = service.needs_hub and bool(os.environ.get("HF_TOKEN")) and not asked.token_file
    return (*(remark for remark in service.remarks
              if not remark.startswith(("Image: ", "The API key is "))),
            *([lost] if is_needed and not (hub_folder() / "token").is_file() else []))


def _environment(service: Service, asked: Asked) -> dict[str, str]:
    """Return the variables; those of the contract are set for an image that is older, too."""
    return {**contract.ENVIRONMENT, **service.environment,
            **({"HF_TOKEN_PATH": HUB_TOKEN} if asked.token_file else {})}


def _read_only(service: Service, asked: Asked, workspace: Workspace, user: User
               ) -> tuple[tuple[Path, str], ...]:
    mounts = [(_source(mount, asked, workspace, service.recipe), mount.target)
              for mount in service.mounts if mount.read_only]
    mounts += [(asked.key_file.absolute(), INSIDE)] if asked.key_file else []
    mounts += [(asked.token_file.absolute(), HUB_TOKEN)] if asked.token_file else []
    for source, _ in mounts:
        if wrong := unreadable(source, user):
            raise UsageError(f"user {user.uid} of the server cannot read {wrong}",
                             where=str(source), next_step="give that user the right to read it: "
                             "the server has no other rights, also where root starts it")
        if "," in str(source) or '"' in str(source):
            raise UsageError("a path with a comma or a quote cannot be mounted into a container",
                             where=str(source), next_step="rename it, or name a link to it")
    return tuple(mounts)


def unreadable(path: Path, user: User) -> str:
    """Return the file or folder of a mount that the user cannot read; nothing where there is none.

    Files of a model's folder are looked at, not those below: a hub's cache is large, and its own.
    """
    inside = [*path.iterdir()] if path.is_dir() and os.access(path, os.R_OK) else []
    return next((str(item) for item in (path, *inside) if item.exists()
                 and not _may_read(item.stat(), user)), "")


def _may_read(state: os.stat_result, user: User) -> bool:
    """Say whether the permissions let the user read, without any capability of root's."""
    if state.st_uid == user.uid:
        return bool(state.st_mode & stat.S_IRUSR)
    in_group = state.st_gid == user.gid
    return bool(state.st_mode & (stat.S_IRGRP if in_group else stat.S_IROTH))


def _source(mount: Mount, asked: Asked, workspace: Workspace, recipe: Recipe) -> Path:
    if mount.holds is Holds.MODEL:
        return (asked.model or workspace.root / mount.source).absolute()
    if mount.holds is Holds.TEMPLATE:
        return next(source for source, _ in template_copies(recipe))
    return hub_folder()


def _writable(service: Service, compiled: CompileCache | None) -> tuple[tuple[Path, str], ...]:
    """Return what is written: the hub's cache for a model that is not complete, compiled code."""
    hub = [(hub_folder(), mount.target) for mount in service.mounts
           if mount.holds is Holds.HUB and not mount.read_only]
    return (*hub, *([(compiled.folder, contract.RUNTIME_CACHE)] if compiled else []))


def _digest(spec: ServiceSpec, *named: str) -> str:
    """Return the digest of what decides how a server behaves: all but its name and labels."""
    value = {**vars(spec), "name": named, "labels": {}}
    text = json.dumps(value, default=str, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_folders(launch: Launch) -> None:
    """Make the folders that the server writes to, as the user's own: the engine makes root's."""
    for folder in launch.folders:
        for part in [*reversed(folder.parents), folder]:
            if not part.exists():
                part.mkdir(exist_ok=True)
                if os.geteuid() == 0:
                    os.chown(part, launch.user.uid, launch.user.gid)
