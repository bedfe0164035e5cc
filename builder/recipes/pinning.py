"""A pin written into a recipe's file: one line, and every other byte stays as it was."""

from __future__ import annotations

import json
import re
from pathlib import Path

import tomli

from builder.errors import ConfigError, Problem
from builder.files import write_text
from builder.limits import CONFIG_BYTES, read_file
from builder.recipes.load import FOLDER, parse_recipe
from builder.recipes.models import Pin, Recipe

LINE = re.compile(r"^pinned[ \t]*=.*\n?", re.MULTILINE)
AFTER = re.compile(r"^image[ \t]*=.*\n", re.MULTILINE)


def pin_line(pin: Pin) -> str:
    """Return the line that says a pin."""
    values = pin.model_dump(mode="json", exclude_defaults=True)
    inside = ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}"
                       for key, value in values.items())
    return f"pinned = {{ {inside} }}\n"


def write_pin(root: Path, recipe: Recipe, pin: Pin) -> Path:
    """Write a pin into the recipe's file: in the place of an older one, else below ``image``.

    Raises ConfigError where the file has neither as a line of its own, and changes nothing then.
    """
    path = root / FOLDER / f"{recipe.name}.toml"
    text = read_file(path, CONFIG_BYTES, "recipe").decode("utf-8")
    changed = _changed(text, pin_line(pin))
    if changed is None or _others(changed) != _others(text):
        raise ConfigError(f"{FOLDER}/{path.name}", [Problem(
            "pinned", "the file has no line `image = …` of its own to write below",
            f"add this line: {pin_line(pin).strip()}")])
    parse_recipe(tomli.loads(changed), recipe.name)
    write_text(path, changed)
    return path


def _changed(text: str, line: str) -> str | None:
    """Return the text with the line; None where there is no place for it."""
    header = re.search(r"^\[", text, re.MULTILINE)
    head, rest = (text[:header.start()], text[header.start():]) if header else (text, "")
    old = LINE.search(head)
    if old:
        return head[:old.start()] + line + head[old.end():] + rest
    place = AFTER.search(head)
    return head[:place.end()] + line + head[place.end():] + rest if place else None


def _others(text: str) -> object:
    try:
        return {key: value for key, value in tomli.loads(text).items() if key != "pinned"}
    except tomli.TOMLDecodeError:
        return None
