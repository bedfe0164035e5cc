"""What a server compiles before it answers, kept on the host by image, recipe and flags."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from builder.matrix.cells import Cell
from builder.recipes.launch import launch_key
from builder.recipes.models import Recipe

FOLDER = "vllm"  # in the cache folder
IMAGE_DIGITS = 12
EAGER = ("--enforce-eager",)


@dataclass(frozen=True)
class CompileCache:
    """The folder of one launch; ``why`` says what will be compiled anew, nothing if it is there."""

    folder: Path
    why: str


def compile_cache(cache: Path, recipe: Recipe, cell: Cell, image_id: str) -> CompileCache | None:
    """Return the folder of a launch; None for a server that compiles nothing.

    A GPU's server compiles kernels even where the model runs eagerly.
    """
    eager = any(word in EAGER for word in recipe.serve)
    if eager and not cell.is_cuda:
        return None
    key = launch_key(recipe, cell)
    name = f"{recipe.name}-{key}-{image_id.removeprefix('sha256:')[:IMAGE_DIGITS]}"
    folder = cache / FOLDER / name
    if _is_filled(folder):
        return CompileCache(folder, "")
    return CompileCache(folder, _reason(folder.parent, recipe.name, key))


def _is_filled(folder: Path) -> bool:
    return folder.is_dir() and any(path.is_file() for path in folder.rglob("*"))


def _reason(parent: Path, recipe: str, key: str) -> str:
    others = [path.name for path in parent.glob(f"{recipe}-*") if _is_filled(path)]
    if any(name.startswith(f"{recipe}-{key}-") for name in others):
        return "what was compiled before is of another image"
    return "what was compiled before is of other flags" if others else "nothing was compiled yet"


def label_text(words: tuple[str, ...]) -> str:
    """Return the words of a command as the JSON that a label holds."""
    return json.dumps(list(words), ensure_ascii=False)
