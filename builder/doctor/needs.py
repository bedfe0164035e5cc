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
DEFAULT_UTILIZATION = 0.92  # vLLM's own


def cache_folders(workspace: Workspace) -> tuple[Path, ...]:
    """Return the folders that a server's container writes into."""
    return (workspace.cache, hub_folder())


def need_of(workspace: Workspace, recipe: Recipe) -> Need:
    """Return what a recipe needs of a host, as far as its file says it.

    A recipe may name an image that this matrix does not have, where another one serves it.
    """
    given = re.search(r"--gpu-memory-utilization[= ]([\d.]+)", " ".join(recipe.serve))
    share = float(given[1]) if given else DEFAULT_UTILIZATION
    image = workspace.matrix.images.get(recipe.image)
    gpu, cuda = (image.gpu, image.cuda) if image else (None, None)
    local = recipe.model.path is not None
    return Need(name=recipe.name, memory_share=share if gpu else 0.0, cuda=cuda or "",
                image=IMAGE_BYTES if gpu else 0,
                model=0 if local else int(recipe.model.parameters_billion * BYTES_A_BILLION))
