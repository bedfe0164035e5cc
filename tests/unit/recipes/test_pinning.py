"""A pin is one line in a recipe's file; every other byte stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import ConfigError
from builder.recipes.load import load_recipe
from builder.recipes.models import Pin
from builder.recipes.pinning import pin_line, write_pin

ROOT = Path(__file__).parents[3]
PIN = Pin(vllm="0.31.0", cell="cpu-0.31.0", record=f"sha256:{'a' * 64}", where="cpu",
          on="2026-11-22", because='0.32.0 fails: "boot"')


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    text = (ROOT / "recipes" / "tiny-gemma4.toml").read_text()
    (tmp_path / "recipes" / "tiny-gemma4.toml").write_text(text)
    return tmp_path


def test_one_line_is_added_and_the_comments_stay(root: Path) -> None:
    path = root / "recipes" / "tiny-gemma4.toml"
    before = path.read_text().splitlines()
    assert write_pin(root, load_recipe(root, "tiny-gemma4"), PIN) == path
    after = path.read_text().splitlines()
    assert [line for line in after if line not in before] == [pin_line(PIN).strip()]
    assert [line for line in after if not line.startswith("pinned")] == before
    assert load_recipe(root, "tiny-gemma4").pinned == PIN


def test_an_older_pin_is_replaced(root: Path) -> None:
    write_pin(root, load_recipe(root, "tiny-gemma4"), PIN)
    newer = PIN.model_copy(update={"vllm": "0.32.0", "because": ""})
    path = write_pin(root, load_recipe(root, "tiny-gemma4"), newer)
    assert load_recipe(root, "tiny-gemma4").pinned == newer
    assert path.read_text().count("pinned =") == 1


@pytest.mark.parametrize("image", ['"image" = "cpu"', 'image = """\ncpu"""'])
def test_a_file_without_a_line_to_write_below_is_left_alone(root: Path, image: str) -> None:
    path = root / "recipes" / "tiny-gemma4.toml"
    text = path.read_text().replace('image = "cpu"', image)
    path.write_text(text)
    recipe = load_recipe(root, "tiny-gemma4")
    with pytest.raises(ConfigError, match="add this line: pinned = "):
        write_pin(root, recipe, PIN)
    assert path.read_text() == text
