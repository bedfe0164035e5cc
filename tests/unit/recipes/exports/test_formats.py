"""Each format writes every recipe, without a secret and with all its remarks as comments."""

from __future__ import annotations

import pytest
from exported import ROOT, service

from builder.recipes.exports.formats import FORMATS
from builder.recipes.load import recipe_names


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("recipe", recipe_names(ROOT))
def test_every_recipe_can_be_written(name: str, recipe: str) -> None:
    planned = service(recipe)
    text = FORMATS[name](planned)
    assert planned.image.reference in text
    assert all(f"# {remark}\n" in text for remark in planned.remarks)
    assert "--privileged" not in text
    assert text.endswith("\n")
