"""Recipes read from a checkout, all errors of one at once, and the schema that editors use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from builder.config_file import read_toml, shape_problems, suggestion
from builder.errors import ConfigError, Problem, UsageError, command
from builder.recipes.models import Recipe

FOLDER = "recipes"


def parse_recipe(raw: dict[str, Any], name: str) -> Recipe:
    """Check a parsed recipe; raises ConfigError with every error that it holds."""
    document = {"name": name, **raw}
    problems = shape_problems(Recipe, document)
    if problems:
        raise ConfigError(f"{FOLDER}/{name}.toml", problems)
    return Recipe.model_validate(document)


def recipe_names(root: Path) -> list[str]:
    """Return the names of all recipes of a checkout, sorted."""
    return sorted(path.stem for path in (root / FOLDER).glob("*.toml"))


def load_recipe(root: Path, name: str) -> Recipe:
    """Read ``recipes/<name>.toml``; raises UsageError for an unknown name, ConfigError."""
    known = recipe_names(root)
    if name not in known:
        raise UsageError(f'there is no recipe "{name}"', where=FOLDER, next_step=suggestion(
            name, known) or f"write {FOLDER}/{name}.toml (docs/recipes.md)")
    recipe = parse_recipe(read_toml(root / FOLDER / f"{name}.toml", what="recipe",
                                    next_step=f"see {command('recipe', 'list')}"), name)
    if recipe.model.path and not (root / recipe.model.path).is_dir():
        raise ConfigError(f"{FOLDER}/{name}.toml", [Problem(
            "model.path", f"there is no folder {recipe.model.path}",
            "a relative path begins at the checkout's folder")])
    return recipe


def load_all(root: Path) -> Iterator[Recipe | UsageError]:
    """Yield every recipe of a checkout, and in the place of one that cannot be read its errors."""
    for name in recipe_names(root):
        try:
            yield load_recipe(root, name)
        except UsageError as error:
            yield error


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a recipe's file, for editors; its name is that of the file."""
    schema = Recipe.model_json_schema(by_alias=True)
    del schema["properties"]["name"]
    schema["required"].remove("name")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema,
            "title": "Sparkyard recipe"}
