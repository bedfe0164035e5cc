"""What a recipe needs of a host, as far as its file says it, and which folders its server uses."""

from __future__ import annotations

import re
from pathlib import Path

from builder.doctor.judging import Need
from builder.recipes.hub import hub_folder
from builder.recipes.models import Recipe
from builder.workspace import Workspace

BYTES_A_BILLION = 2_000_000_000  # BF16 is what most repositories hold
IMAGE_BYTES = 9_000_000_000  # tf5 has 8.6 GB
DEFAULT_SHARE = 0.92  # vLLM's own --gpu-memory-utilization (0.90 before 0.32)
SHARE = re.compile(r"--gpu-memory-utilization[ =]([0-9]{0,9}\.?[0-9]{1,9})")


def cache_folders(workspace: Workspace) -> tuple[Path, ...]:
    """Return the folders that a server's container writes into."""
    return (workspace.cache, hub_folder())


def memory_share(recipe: Recipe) -> float:
    """Return the share of the memory that a recipe's flags give to vLLM, or vLLM's own."""
    given = SHARE.search(" ".join(recipe.serve))
    return float(given[1]) if given else DEFAULT_SHARE


def need_of(workspace: Workspace, recipe: Recipe) -> Need:
    """Return what a recipe needs of a host, as far as its file says it.

    A recipe may name an image that this matrix does not have, where another one serves it.
    """
    image = workspace.matrix.images.get(recipe.image)
    gpu, cuda = (image.gpu, image.cuda) if image else (None, None)
    local = recipe.model.path is not None
    return Need(name=recipe.name, memory_share=memory_share(recipe) if gpu else 0.0,
                cuda=cuda or "", image=IMAGE_BYTES if gpu else 0,
                model=0 if local else int(recipe.model.parameters_billion * BYTES_A_BILLION))
