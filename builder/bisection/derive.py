"""The cell of a matrix with another version of vLLM, and a workspace whose locks lie in the cache.

Nothing of the checkout is written: the derived cell is what ``matrix.toml`` would give with one
more version on the image's vLLM axis.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from builder.errors import UsageError
from builder.matrix.cells import Cell, expand
from builder.matrix.models import AxisValue, Image, Matrix
from builder.workspace import Workspace

BASE_FILES = ("bases.toml", "facts")  # what the locks of cells stand on


def with_version(matrix: Matrix, cell: Cell, version: str) -> tuple[Matrix, Cell]:
    """Return the matrix with ``version`` on the cell's vLLM axis, and the cell that has it.

    Raises UsageError where the image's combinations leave that cell out.
    """
    image = matrix.images[cell.image]
    known = {value.spec for value in image.vllm}
    values = image.vllm if version in known else (*image.vllm, AxisValue(spec=version))
    derived = matrix.model_copy(update={"images": {
        **matrix.images, cell.image: _with_axis(image, values)}})
    wanted = {**cell.axes, "vllm": version}
    found = next((one for one in expand(derived)
                  if one.image == cell.image and one.axes == wanted), None)
    if found is None:
        raise UsageError(f"the matrix leaves out {cell.id} with vLLM {version}",
                         where=f"images.{cell.image}", next_step="see its exclude and include")
    return derived, found


def _with_axis(image: Image, values: tuple[AxisValue, ...]) -> Image:
    return image.model_copy(update={"vllm": values})


def derived_workspace(workspace: Workspace, cell: Cell, version: str, locks: Path
                      ) -> tuple[Workspace, Cell]:
    """Return a workspace with the cell of that version, whose locks lie in ``locks``."""
    matrix, found = with_version(workspace.matrix, cell, version)
    _copy_bases(workspace.locks, locks)
    return replace(workspace, matrix=matrix, cells=expand(matrix), other_locks=locks), found


def _copy_bases(committed: Path, locks: Path) -> None:
    """Bring the locks of the bases into ``locks``, as they are committed now."""
    locks.mkdir(parents=True, exist_ok=True)
    for name in BASE_FILES:
        source, target = committed / name, locks / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copyfile(source, target)
