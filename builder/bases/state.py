"""What each base is asked to hold, which lock answers for it, and whether that lock still does.

Reads files only: the recipes in ``images/base/``, the committed ``locks/bases.toml``, and the lock
of the bases that this machine had to make differently.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

from builder.config_file import read_toml, shape_problems, suggestion
from builder.errors import ConfigError, UsageError
from builder.limits import CONFIG_BYTES, read_file
from builder.locking.base_lock import MAKE_AGAIN, Key, LockedBase, load_bases
from builder.locking.sums import refuse_edited
from builder.matrix.models import Base
from builder.model import Frozen
from builder.workspace import Workspace

RECIPES = Path("images/base")
SLIM_RECIPE = RECIPES / "slim.toml"
CUDA_RECIPE = RECIPES / "cuda.toml"
CUDA_DOCKERFILE = RECIPES / "cuda.Dockerfile"
# Debian's package names. The names become arguments of apt-get, where "-o" would be an option.
PACKAGE = r"[a-z0-9][a-z0-9+.-]+"
PackageName = Annotated[str, Field(pattern=rf"^{PACKAGE}$")]
# The same with the matrix's Python in it: "python{python}-dev".
PackageTemplate = Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9+.-]|\{python\})+$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Value = Annotated[str, Field(pattern=r"^[^\x00-\x1f]*$")]
Recipe = TypeVar("Recipe", bound=Frozen)


class SlimRecipe(Frozen):
    """A Debian suite, packages beside its essential ones, files to leave out, environment.

    ``leave_out`` and ``keep``, which wins, are globs over paths without the leading slash; ``*``
    also matches slashes.
    """

    suite: Annotated[str, Field(pattern=r"^[a-z]+$")]
    packages: tuple[PackageName, ...] = Field(min_length=1)
    leave_out: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    env: Mapping[Variable, Value]

    @property
    def digest(self) -> str:
        """Return the sha256 of what is asked for; comments and layout do not count."""
        return _digest(_sorted_packages(self))


class CudaRecipe(Frozen):
    """What is added to NVIDIA's image: packages (``{python}`` is the matrix's) and environment."""

    packages: tuple[PackageTemplate, ...] = Field(min_length=1)
    env: Mapping[Variable, Value]

    def packages_for(self, python: str) -> tuple[str, ...]:
        """Return the packages for one minor version of Python."""
        return tuple(name.replace("{python}", python) for name in self.packages)

    def digest_with(self, base: Base, dockerfile: str) -> str:
        """Return the sha256 of what is asked for: source, Python, packages, variables, steps."""
        return _digest({"recipe": _sorted_packages(self), "source": base.source,
                        "python": base.python, "dockerfile": dockerfile})


def load_slim_recipe(root: Path) -> SlimRecipe:
    """Read the slim recipe of the checkout at ``root``; raises ConfigError with all its errors."""
    return _load(root, SLIM_RECIPE, SlimRecipe)


def load_cuda_recipe(root: Path) -> CudaRecipe:
    """Read the cuda recipe of the checkout at ``root``; raises ConfigError with all its errors."""
    return _load(root, CUDA_RECIPE, CudaRecipe)


def cuda_dockerfile(root: Path) -> str:
    """Return the template of the cuda base's Dockerfile."""
    return read_file(root / CUDA_DOCKERFILE, CONFIG_BYTES, "Dockerfile").decode("utf-8", "replace")


def recipe_digest(root: Path, base: Base) -> str:
    """Return the sha256 of what ``base`` is asked to hold today."""
    if base.flavour == "cuda":
        return load_cuda_recipe(root).digest_with(base, cuda_dockerfile(root))
    return load_slim_recipe(root).digest


class BaseState(StrEnum):
    """Where a base stands between what is asked for and what is locked."""

    LOCKED = "locked"
    UNLOCKED = "unlocked"  # a base of this machine's own stands in for the committed one
    STALE = "stale"  # what it is asked to hold has changed since it was locked
    MISSING = "missing"


@dataclass(frozen=True)
class Standing:
    """The state of one base and, where it is not ``LOCKED``, the reason."""

    state: BaseState
    why: str = ""


@dataclass(frozen=True)
class Bases:
    """Both locks of the bases, read once and handed on, and where each base of the matrix stands.

    ``committed`` is ``locks/bases.toml``; ``local`` are the bases that this machine had to make
    differently.
    """

    committed: Mapping[Key, LockedBase]
    local: Mapping[Key, LockedBase]
    standings: Mapping[Key, Standing]

    def get(self, key: Key) -> LockedBase | None:
        """Return the base that builds use: this machine's own where it replaces the committed."""
        return _effective(self.committed, self.local, key)


def read_bases(workspace: Workspace) -> Bases:
    """Read both locks; raises LockError for a damaged one, ConfigError for a wrong recipe."""
    committed, local = load_bases(lock_file(workspace)), load_bases(local_file(workspace))
    if lock_file(workspace).exists():
        refuse_edited(lock_file(workspace), "bases' lock", MAKE_AGAIN)
    keys = [(name, platform) for name, base in workspace.matrix.bases.items()
            for platform in base.platforms]
    return Bases(committed, local,
                 {key: _standing(workspace, key, committed, local) for key in keys})


def lock_file(workspace: Workspace) -> Path:
    """Return the committed lock of the bases."""
    return workspace.locks / "bases.toml"


def local_file(workspace: Workspace) -> Path:
    """Return this machine's own lock, for bases that are not the committed ones."""
    return workspace.cache / "bases.toml"


def image_tag(registry: str, base: LockedBase) -> str:
    """Return the immutable tag of a base: processor and the start of its image id."""
    return f"{registry}/base-{base.name}:{base.arch}-{base.image_id.removeprefix('sha256:')[:12]}"


def select_keys(workspace: Workspace, names: Iterable[str], platforms: Iterable[str]
                ) -> list[Key]:
    """Return the bases meant on the command line, each once; by default all of the matrix."""
    known, names, wanted = workspace.matrix.bases, tuple(dict.fromkeys(names)), set(platforms)
    for name in names:
        if name not in known:
            raise UsageError(f'the matrix has no base "{name}"', where="command line",
                             next_step=suggestion(name, list(known)))
        if wanted and wanted.isdisjoint(known[name].platforms):
            raise UsageError(f"base {name} is not made for {', '.join(sorted(wanted))}",
                             where="--platform",
                             next_step=f"name one of {', '.join(known[name].platforms)}, or add "
                             f"the platform to bases.{name}.platforms in the matrix")
    return [(name, platform) for name in (names or known)
            for platform in known[name].platforms if not wanted or platform in wanted]


def _effective(committed: Mapping[Key, LockedBase], local: Mapping[Key, LockedBase], key: Key
               ) -> LockedBase | None:
    ours, own = committed.get(key), local.get(key)
    if own is not None and own.instead_of == (ours.image_id if ours else ""):
        return own
    return ours


def _standing(workspace: Workspace, key: Key, committed: Mapping[Key, LockedBase],
              local: Mapping[Key, LockedBase]) -> Standing:
    base, locked = workspace.matrix.bases[key[0]], committed.get(key)
    if locked is not None and (reason := _stale(workspace.root, base, locked)):
        return Standing(BaseState.STALE, reason)
    used = _effective(committed, local, key)
    if used is None:
        return Standing(BaseState.MISSING, "not made yet, as that needs NVIDIA's registry"
                        if base.flavour == "cuda" else "it is not locked yet")
    if used is not locked:
        return Standing(BaseState.UNLOCKED, used.unlocked)
    return Standing(BaseState.LOCKED)


def _stale(root: Path, base: Base, locked: LockedBase) -> str:
    """Say why a lock no longer answers; nothing where it does."""
    if locked.recipe != recipe_digest(root, base):
        return f"{RECIPES}/{base.flavour}.* or the matrix entry has changed since it was locked"
    if not locked.python.startswith(f"{base.python}.") or locked.glibc != base.glibc:
        return (f"it has Python {locked.python} and glibc {locked.glibc}, but the matrix asks for "
                f"{base.python} and {base.glibc}")
    return ""


def _load(root: Path, file: Path, model: type[Recipe]) -> Recipe:
    raw = read_toml(root / file, what="base recipe", next_step="run in a Sparkyard checkout")
    if problems := shape_problems(model, raw):
        raise ConfigError(str(file), problems)
    return model.model_validate(raw)


def _sorted_packages(recipe: SlimRecipe | CudaRecipe) -> dict[str, Any]:
    return {**recipe.model_dump(mode="json"), "packages": sorted(recipe.packages)}


def _digest(intent: Mapping[str, Any]) -> str:
    text = json.dumps(intent, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
