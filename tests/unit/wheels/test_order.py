"""The values at the border to the compiler."""

from __future__ import annotations

from pathlib import Path

from wheel_recipes import recipe

from builder.locking.base_lock import LockedBase
from builder.matrix.cells import expand
from builder.matrix.load import load_matrix
from builder.wheels.order import Order, Provenance

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
