"""What the matrix says of compiled packages: each wrong policy by its key, a good one in quiet."""

from __future__ import annotations

from pathlib import Path

import pytest
from cells_for_tests import CPU, make_cell, make_lock
from cells_for_tests import make_wheel as locked_wheel
from compiled_extension import make_recipe, make_sources

from builder.errors import Problem
from builder.wheels.policy import lock_problems, policy_of, policy_problems, source_version
from builder.wheels.recipe import Recipe


@pytest.fixture(name="recipe")
def made_recipe(tmp_path: Path) -> Recipe:
    return make_recipe(make_sources(tmp_path))


def problems(policy: object, recipe: Recipe | None) -> list[Problem]:
    cell = make_cell({**CPU, "wheels": {"spam": policy}})
    recipes = {} if recipe is None else {"spam": recipe}
    return list(policy_problems(cell, "spam", policy_of(cell, "spam"), recipes))


@pytest.mark.parametrize("policy", ["published", "auto", "_answer", ["_answer", "_other"]])
def test_what_the_recipe_can_do_is_good(policy: object, recipe: Recipe) -> None:
    assert problems(policy, recipe) == []


def test_what_no_recipe_can_do_is_named_with_what_can(recipe: Recipe) -> None:
    (unknown,) = problems("_anser", recipe)
    assert (unknown.where, unknown.what) == ("images.img.wheels.spam",
                                             'there is no target "_anser"')
    assert unknown.next_step == 'perhaps you meant "_answer"'
    (without,) = problems("auto", None)
    assert "there is no wheels/spam.toml" in without.what
    assert problems("published", None) == []
    for gpu in ("sm_121", "sm_120"):
        (other,) = problems("auto", recipe.model_copy(update={"gpu": gpu}))
        assert other.what == f"its recipe is for {gpu}, the image for no GPU"
        assert other.next_step


def test_a_lock_without_the_package_or_of_an_unknown_version(recipe: Recipe) -> None:
    cell = make_cell({**CPU, "wheels": {"Spam": "auto"}})
    good = make_lock(cell, locked_wheel("spam", "1.0"))
    assert lock_problems(cell, good, {"spam": recipe}) == []
    (unknown,) = lock_problems(cell, make_lock(cell, locked_wheel("spam", "9.0")), {"spam": recipe})
    assert unknown.what == "wheels/spam.toml has no sources of 9.0"
    (absent,) = lock_problems(cell, make_lock(cell), {"spam": recipe})
    assert absent.what == "the lock of img has no spam"


def test_a_local_version_has_the_sources_of_its_public_one() -> None:
    assert source_version("2.11.0+cu130") == "2.11.0"
