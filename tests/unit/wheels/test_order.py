"""The values at the border to the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest
from wheel_recipes import recipe

from builder.locking.base_lock import LockedBase
from builder.matrix.cells import expand
from builder.matrix.load import load_matrix
from builder.wheels.order import Order, Provenance, Rebuilt, RebuiltFile

ROOT = Path(__file__).parents[3]


def test_an_order_says_what_is_compiled() -> None:
    cell = next(cell for cell in expand(load_matrix(ROOT / "matrix.toml")) if cell.id == "tf5")
    base = LockedBase.model_construct(name="slim", platform="linux/arm64")
    order = Order("0" * 64, cell, recipe(), "0.20.2", ("_C", "_C_stable_libtorch"), Path("s"), base)
    assert order.architectures == ("12.0f",)
    assert order.title == "vllm 0.20.2: _C, _C_stable_libtorch"
    whole = Order("0" * 64, cell, recipe(), "0.20.2", (), Path("s"), base)
    assert whole.title.endswith("the whole package")


def test_the_hit_rate_is_unknown_without_a_cache() -> None:
    facts = Provenance(mode="cross", machine="x86_64", compilers={}, seconds=1, objects=2)
    assert facts.hit_rate is None
    assert facts.model_copy(update={"cache_hits": 1, "cache_misses": 3}).hit_rate == 0.25


@pytest.mark.parametrize("paths", [("a.so", "a.so"), ("a.so", "a.so/b.so")])
def test_a_file_has_a_place_of_its_own(paths: tuple[str, str]) -> None:
    facts = Provenance(mode="native", machine="x86_64", compilers={}, seconds=1, objects=1)
    named = [RebuiltFile(path=path, sha256=digit * 64, size=1)
             for path, digit in zip(paths, "ab", strict=True)]
    with pytest.raises(ValueError, match="named twice, or as the folder of another"):
        Rebuilt(key="c" * 64, files=tuple(named), provenance=facts)
    sound = named[1].model_copy(update={"path": "a/b.so"})
    assert Rebuilt(key="c" * 64, files=(named[0], sound), provenance=facts).files
