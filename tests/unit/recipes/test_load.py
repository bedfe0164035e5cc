"""Recipes of a checkout: read one by one, a broken one beside good ones, and their schema."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tomli

from builder.errors import ConfigError, UsageError
from builder.recipes.load import json_schema, load_all, load_recipe, parse_recipe, recipe_names
from builder.recipes.models import Recipe

ROOT = Path(__file__).parents[3]
NAMES = recipe_names(ROOT)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Lay out a folder with one recipe and its model."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "tests" / "fixtures" / "tiny-gemma4").mkdir(parents=True)
    shutil.copy(ROOT / "recipes" / "tiny-gemma4.toml", tmp_path / "recipes")
    return tmp_path


def test_the_committed_schema_is_that_of_the_models() -> None:
    committed = json.loads((ROOT / "docs" / "recipe.schema.json").read_text(encoding="utf-8"))
    assert committed == json_schema(), "renew it: ./nox -s recipe -- schema"


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_names_the_schema_and_holds_it(name: str) -> None:
    text = (ROOT / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    assert text.startswith("#:schema ../docs/recipe.schema.json\n")
    jsonschema.validate(tomli.loads(text), json_schema())


def test_the_schema_refuses_what_the_models_refuse() -> None:
    raw = tomli.loads((ROOT / "recipes" / "tiny-gemma4.toml").read_text(encoding="utf-8"))
    for change in ({"family": "gemma5"}, {"envronment": {}}, {"name": "tiny-gemma4"},
                   {"description": "two\nlines"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**raw, **change}, json_schema())


def keys(schema: dict[str, Any]) -> set[str]:
    """Return the keys of all tables of a recipe."""
    return {key for table in (schema, *schema["$defs"].values()) for key in table["properties"]}


def test_every_key_has_a_description_and_stands_on_the_page() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert {key for key in keys(json_schema()) if not re.search(rf"\b{key}\b", page)} == set()
    example, = re.findall(r"^```toml\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    recipe = parse_recipe(tomli.loads(example), "example")
    assert recipe.published
    assert recipe.chat_template


def test_an_unknown_recipe_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match="there is no recipe") as caught:
        load_recipe(ROOT, "tiny-gema4")
    assert 'perhaps you meant "tiny-gemma4"' in caught.value.next_step


def test_without_any_recipe_the_page_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_recipe(tmp_path, "any")
    assert "docs/recipes.md" in caught.value.next_step


def test_a_model_folder_that_is_not_there_is_an_error_with_its_key(checkout: Path) -> None:
    assert load_recipe(checkout, "tiny-gemma4").model.path
    (checkout / "tests" / "fixtures" / "tiny-gemma4").rmdir()
    with pytest.raises(ConfigError, match=r"model\.path: there is no folder tests/fixtures"):
        load_recipe(checkout, "tiny-gemma4")


def test_one_broken_recipe_does_not_hide_the_others(checkout: Path) -> None:
    (checkout / "recipes" / "broken.toml").write_text("schema = 7\n")
    (checkout / "recipes" / "worse.toml").write_text("= no TOML")
    (checkout / "recipes" / "a-folder.toml").mkdir()
    (checkout / "recipes" / "a-link.toml").symlink_to("gone.toml")
    folder, link, broken, good, worse = load_all(checkout)
    assert isinstance(good, Recipe)
    assert "must be a regular file" in str(folder)
    assert "there is no recipe" in str(link)
    assert isinstance(broken, ConfigError)
    assert isinstance(worse, ConfigError)
    assert "schema" in {problem.where for problem in broken.problems}
