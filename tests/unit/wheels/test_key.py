"""Equal inputs give the same key, each other input another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cells_for_tests import CPU, make_cell, make_wheel
from compiled_extension import BASE, make_recipe, make_sources

from builder.patches.apply import Blob
from builder.wheels.key import order_key, short


def test_each_input_changes_the_key_and_nothing_else_does(tmp_path: Path) -> None:
    recipe = make_recipe(make_sources(tmp_path))

    def key(**changed: Any) -> str:
        facts = {"cell": make_cell(), "recipe": recipe, "version": "1.0", "targets": ("_answer",),
                 "changes": {}, "torch": make_wheel("torch", "2.11.0"), "base": BASE,
                 "compiler": "gcc 12", **changed}
        return order_key(**facts)

    plain = key()
    assert key() == plain
    assert key(recipe=recipe.model_copy(update={"description": "words", "cache_gb": 1.0})) == plain
    assert key(cell=make_cell({**CPU, "description": "words", "vllm": "0.31.0"})) == plain
    others = [
        key(targets=("_other",)), key(changes={"csrc/answer.c": Blob(b"int x;")}),
        key(changes={"csrc/answer.c": None}), key(compiler="gcc 13"), key(torch=None),
        key(torch=make_wheel("torch", "2.11.0").model_copy(update={"sha256": "1" * 64})),
        key(base=BASE.model_copy(update={"image_id": "sha256:" + "f" * 64})),
        key(cell=make_cell({**CPU, "platform": "linux/arm64"})),
        key(recipe=make_recipe(make_sources(tmp_path), external={"x": {
            "package": "y", "file": "y-1.tar.gz", "sha256": "2" * 64, "size": 1, "path": "z",
            "variables": {"X_DIR": ""}}})),
    ]
    assert len({plain, *others}) == len(others) + 1


def test_a_short_key_stays_as_it_is_in_a_version() -> None:
    assert short("01234567" + "a" * 56) == "k01234567"
