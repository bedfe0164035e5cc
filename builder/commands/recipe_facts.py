"""``sparkyard recipe facts``: renew the committed sizes and shapes of models from the hub."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from builder import console
from builder.errors import NetworkError, UsageError
from builder.fetch.hub import ask_hub
from builder.indexes.settings import user_sources
from builder.recipes.facts_file import renewed, write_facts
from builder.recipes.load import load_all
from builder.recipes.model_facts import FOLDER, ModelFacts, facts_of
from builder.recipes.models import Recipe
from builder.workspace import Workspace

REPOSITORY = re.compile(r"(?:\w[\w.-]*)/(?:\w[\w.-]*)", re.ASCII)


def add_facts(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``recipe facts``."""
    parser = verbs.add_parser(
        "facts", help="renew the sizes and shapes of models in recipes/models from the hub",
        description="Asks the hub (HF_ENDPOINT) for the newest commit of each repository and "
                    "writes recipes/models/OWNER--NAME.toml: revision, parameters, bytes of the "
                    "weights, shape. recipe check estimates memory with them, without a hub.")
    parser.add_argument("repositories", metavar="OWNER/NAME", nargs="*",
                        help="repositories (default: all that have a file)")


def refresh(workspace: Workspace, repositories: Sequence[str]) -> int:
    """Renew the files; one that fails leaves its file as it is. The code is that of a failure."""
    known = [path.stem.replace("--", "/", 1)
             for path in sorted((workspace.root / FOLDER).glob("*.toml"))]
    failed = 0
    for repository in repositories:
        if not REPOSITORY.fullmatch(repository):
            raise UsageError(f'"{repository}" is not a repository', where="command line",
                             next_step="name it as OWNER/NAME")
    for repository in repositories or filter(REPOSITORY.fullmatch, known):
        old = facts_of(workspace.root, repository)
        try:
            new = renewed(ask_hub(repository, "main", user_sources()), old)
        except NetworkError as error:
            console.show_error(error)
            failed = error.exit_code
            continue
        path = write_facts(workspace.root, new)
        console.out(f"{path.relative_to(workspace.root)}: {_change(old, new)}")
        for name in to_pin(workspace.root, repository):
            console.out(f"  recipes/{name}.toml can be pinned now: write revision = "
                        f'"{new.revision}" in the place of unpinned_because')
    return failed


def to_pin(root: Path, repository: str) -> list[str]:
    """Return the recipes that serve a repository at a revision that moves."""
    return [recipe.name for recipe in load_all(root) if isinstance(recipe, Recipe)
            and recipe.model.repository == repository and not recipe.model.pinned]


def _change(old: ModelFacts | None, new: ModelFacts) -> str:
    if old is None:
        return f"new, {console.size(new.weights_bytes)} at {new.revision}"
    change = new.weights_bytes / old.weights_bytes - 1
    return f"{console.size(new.weights_bytes)} ({change:+.1%}) at {new.revision}"
