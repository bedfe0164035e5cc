"""Where things lie: the checkout's files and the user's cache folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from builder.cache_folder import checked, claim, named_folder
from builder.errors import UsageError
from builder.matrix.cells import Cell, expand
from builder.matrix.load import load_matrix
from builder.matrix.models import Matrix
from builder.model import registry


@dataclass(frozen=True)
class Workspace:
    """A checkout: its matrix (read and checked), its cells, and the folders of a run.

    ``other_locks`` is a folder of locks in place of the committed ones, ``file`` the name of the
    matrix's file.
    """

    root: Path
    matrix: Matrix
    cells: tuple[Cell, ...]
    cache: Path
    other_locks: Path | None = None
    file: str = "matrix.toml"

    @property
    def locks(self) -> Path:
        """Return the folder of the locks: the committed ones, where no other is named."""
        return self.other_locks or self.root / "locks"

    @property
    def registry(self) -> str:
        """Return the registry and name space of images; raises UsageError for a wrong one."""
        return named_registry() or self.matrix.registry


def named_registry() -> str:
    """Return the registry that ``SPARKYARD_REGISTRY`` names, or nothing; UsageError if wrong."""
    named = os.environ.get("SPARKYARD_REGISTRY", "")
    try:
        return named and registry(named)
    except ValueError as error:
        raise UsageError(str(error), where="SPARKYARD_REGISTRY",
                         next_step="correct the variable, or unset it") from error


def cache_folder(*, make: bool = True) -> Path:
    """Return the user's cache folder, made where it is missing unless ``make`` is false.

    Raises UsageError where it holds somebody else's files.
    """
    return claim(named_folder()) if make else checked(named_folder())


def open_workspace(matrix: Path, *, make_cache: bool = True) -> Workspace:
    """Read ``matrix`` and expand its cells; raises ConfigError with every error in it.

    Commands that only look pass ``make_cache=False``, and leave the disk as it is.
    """
    intent = load_matrix(matrix)
    return Workspace(matrix.absolute().parent, intent, expand(intent, matrix.name),
                     cache_folder(make=make_cache), file=matrix.name)
