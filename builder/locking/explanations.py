"""Why a cell did not resolve, in words that name keys of the matrix and no address.

uv explains itself by package names; here each one is given the place in ``matrix.toml`` where
somebody can do something about it.
"""

from __future__ import annotations

import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from builder import specifiers
from builder.config_file import dotted
from builder.errors import LockError
from builder.indexes.settings import DEFAULT_INDEX, FIND_LINKS, Sources
from builder.locking.uv import PROJECT
from builder.matrix.cells import PACKAGES, Cell

NOISE = re.compile(r"^\s*(?:error:|cause:|hint:)\s*")
ADDRESS = re.compile(r"(?:https?|file)://[^\s`'\"),]+")


def matrix_keys(cell: Cell) -> dict[str, str]:
    """Return, for each package that the matrix names, the dotted key that names it."""
    image = ("images", cell.image)
    keys = {_name(text): dotted((*image, "requires")) for text in cell.requirements}
    keys |= {_name(text): dotted(("bases", cell.base_name, "toolchain"))
             for text in cell.base.toolchain if _name(text) in keys}
    keys |= {canonicalize_name(name): dotted((*image, "leave_out")) for name in cell.leave_out}
    keys |= {package: dotted((*image, axis)) for axis, package in PACKAGES.items()
             if axis in cell.axes}
    keys[cell.vllm_package] = dotted((*image, "vllm"))
    keys.pop("pip", None)  # ours, not the matrix's
    return keys


def range_keys(cell: Cell) -> list[str]:
    """Return the matrix keys of the cell's axes that are ranges."""
    return [dotted(("images", cell.image, axis)) for axis, spec in cell.axes.items()
            if axis != "base" and not specifiers.is_exact(spec)]


def keys_in(words: str, cell: Cell) -> tuple[str, ...]:
    """Return the matrix keys of the packages that ``words`` name, in the order of the requirements.

    Where none is spoken of, the culprit is something that vLLM asks for: its key is returned.
    """
    spoken = {canonicalize_name(word)
              for word in re.findall(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", words)}
    keys = matrix_keys(cell)
    found = dict.fromkeys(key for package, key in keys.items() if package in spoken)
    return tuple(found) or (keys[cell.vllm_package],)


def plain(words: str, cell: Cell, user: Sources) -> str:
    """Return uv's words as one paragraph, with the names of indexes in place of addresses."""
    lines = [NOISE.sub("", line).strip() for line in words.splitlines()]
    text = " ".join(line for line in lines if line and not line.startswith("warning:"))
    named = {user.default_index: f'the "{DEFAULT_INDEX}" index',
             **dict.fromkeys(user.find_links, f'the "{FIND_LINKS}" folder'),
             **{index.url: f'the index "{name}"' for name, index in cell.indexes.items()}}
    for address, name in sorted(named.items(), key=lambda item: -len(item[0])):
        text = text.replace(address.rstrip("/"), name)
    text = ADDRESS.sub("an address", text).replace(f"{PROJECT} depends on", "the matrix asks for")
    return text.removeprefix("No solution found when resolving dependencies ").strip()


def unsolvable(words: str, cell: Cell, user: Sources) -> LockError:
    """Return the error for requirements that contradict each other or that no wheel answers."""
    keys = keys_in(words, cell)
    hint = ", or let one of them override the others' ranges with override = true"
    return LockError(
        f"{cell.id} cannot be resolved: {plain(words, cell, user)}", where=", ".join(keys),
        next_step=f"change {' or '.join(keys)} in matrix.toml"
                  + (hint if len(keys) > 1 and not cell.overrides else ""))


def reason_line(reason: str, root: Path) -> str:
    """Return ``reason`` fit for ``unlocked.toml``: one line, no path of this machine."""
    return re.sub(r"\s+", " ", reason.replace(f"{root}/", "")).strip()


def _name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement.replace("{cuda}", "0")).name)
