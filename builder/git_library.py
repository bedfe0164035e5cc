"""GitPython, imported where git is needed: it looks for the git program as soon as it loads."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from builder.errors import HostError

if TYPE_CHECKING:
    from git import Blob, Commit, Repo, Tree, exc

__all__ = ["Blob", "Commit", "Repo", "Tree", "exc"]
NAMES = frozenset(__all__)


def __getattr__(name: str) -> object:
    """Return a name of GitPython; raise HostError where the git program is missing.

    Commands that need no git run without it, since nothing is imported before it is used.
    """
    if name not in NAMES:
        raise AttributeError(name)
    try:
        return getattr(importlib.import_module("git"), name)
    except ImportError as error:
        raise HostError("the program git is not installed", where="PATH",
                        next_step="install it: `sudo apt-get install git`") from error
