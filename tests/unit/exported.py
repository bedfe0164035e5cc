"""Services for the tests of the exports, from the committed recipes and matrix."""

from __future__ import annotations

from pathlib import Path

from builder.recipes.exports.service import LOOPBACK, Asked, Image, Service, plan_service
from builder.recipes.load import load_recipe
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[2]
CELLS = {cell.id: cell
         for cell in open_workspace(ROOT / "matrix.toml", make_cache=False).cells}
DIGEST = "registry.example/sparkyard/x@sha256:" + "0" * 64


def service(name: str, *, host: str = LOOPBACK, key_file: str = "", nodes: int = 1,
            **changes: object) -> Service:
    """Return a committed recipe's service; ``changes`` are fields of the recipe."""
    recipe = load_recipe(ROOT, name)
    return plan_service(recipe.model_copy(update=changes), CELLS[recipe.image],
                        Image(DIGEST, "by digest"), ROOT, Asked(host, key_file, nodes))
