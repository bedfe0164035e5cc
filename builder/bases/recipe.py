"""``images/base/slim.toml``: what the slim base is asked to hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from builder.config_file import read_toml, shape_problems
from builder.errors import ConfigError, Problem
from builder.model import Frozen

RECIPE = Path("images/base/slim.toml")


class SlimRecipe(Frozen):
    """A Debian suite, packages beside its essential ones, files to leave out, environment.

    ``leave_out`` and ``keep``, which wins, are globs over paths without the leading slash; ``*``
    also matches slashes.
    """

    suite: Annotated[str, Field(pattern=r"^[a-z]+$")]
    packages: tuple[str, ...] = Field(min_length=1)
    leave_out: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    env: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Return the sha256 of what is asked for; comments and layout do not count."""
        intent = self.model_dump(mode="json")
        intent["packages"] = sorted(self.packages)
        text = json.dumps(intent, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def load_recipe(root: Path) -> SlimRecipe:
    """Read the recipe of the checkout at ``root``; raises ConfigError with all its errors."""
    path = root / RECIPE
    raw = read_toml(path, what="recipe of the slim base", next_step="run in a Sparkyard checkout")
    try:
        return SlimRecipe.model_validate(raw)
    except ValidationError as error:
        problems = shape_problems(SlimRecipe, raw) or [Problem(path.name, str(error))]
        raise ConfigError(str(RECIPE), problems) from error
