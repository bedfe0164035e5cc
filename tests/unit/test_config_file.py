"""TOML into models: unreadable files, dotted keys, and names that were probably meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from builder.config_file import dotted, read_toml, shape_problems, suggestion
from builder.errors import ConfigError, UsageError
from builder.limits import CONFIG_BYTES


class Leaf(BaseModel):
    """Has one key."""

    model_config = ConfigDict(extra="forbid")
    colour: int = 0


class Tree(BaseModel):
    """Has leaves in each way that a document can hold them."""

    model_config = ConfigDict(extra="forbid")
    leaf: Leaf | None = None
    leaves: tuple[Leaf, ...] = ()
    named: dict[str, Leaf] = {}
    needed: str


def test_a_missing_file_and_a_broken_one_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    with pytest.raises(UsageError, match="there is no recipe") as missing:
        read_toml(path, what="recipe", next_step="do this")
    assert missing.value.next_step == "do this"
    path.write_text("a = = 1")
    with pytest.raises(ConfigError, match=r"not readable as TOML.*line 1.*correct it there"):
        read_toml(path, what="recipe", next_step="")
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match="not UTF-8 text: byte 6 is 0xff"):
        read_toml(path, what="recipe", next_step="")


@pytest.mark.parametrize("path", ["/dev/zero", "/dev", "/proc/self/mem"])
def test_what_is_no_file_of_a_sensible_size_is_refused_at_once(path: str) -> None:
    with pytest.raises((UsageError, ConfigError)) as caught:
        read_toml(Path(path), what="recipe", next_step="")
    assert caught.value.exit_code == 2


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.toml")
    with pytest.raises(UsageError, match="must be a regular file"):
        read_toml(tmp_path / "f.toml", what="recipe", next_step="")


def test_a_file_beyond_all_measure_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_bytes(b"#" * (CONFIG_BYTES + 1))
    with pytest.raises(UsageError, match="larger than"):
        read_toml(tmp_path / "f.toml", what="recipe", next_step="")


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "a = " + "{a=" * 20_000])
def test_nesting_beyond_all_measure_is_an_error_of_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "f.toml").write_text(text)
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_toml(tmp_path / "f.toml", what="recipe", next_step="")


def test_a_very_long_word_gets_no_slow_comparison() -> None:
    assert suggestion("x" * 1_000_000, ["y" * 1_000_000]).startswith("known here")


def test_keys_are_written_as_toml_would() -> None:
    assert dotted(("images", "tf5-0.19", "vllm", 0)) == 'images."tf5-0.19".vllm.0'
    assert dotted(("images", "Bad", "[key]")) == "images.Bad"


@pytest.mark.parametrize(("raw", "key"), [
    ({"leaf": {"color": 1}}, "leaf.color"),
    ({"leaves": [{}, {"color": 1}]}, "leaves.1.color"),
    ({"named": {"leaf": {"color": 1}}}, "named.leaf.color"),  # an entry called like a field
])
def test_a_misspelt_key_is_found_at_any_depth(raw: dict[str, object], key: str) -> None:
    (problem,) = shape_problems(Tree, {"needed": "", **raw})
    assert (problem.where, problem.what) == (key, "unknown key")
    assert problem.next_step == 'perhaps you meant "colour"'


def test_a_missing_key_is_named() -> None:
    (problem,) = shape_problems(Tree, {})
    assert (problem.where, problem.what) == ("needed", "this key is missing")


def test_what_is_right_has_no_problem() -> None:
    assert shape_problems(Tree, {"needed": "x", "leaf": {"colour": 1}}) == []


def test_a_word_that_resembles_nothing_gets_the_list() -> None:
    assert suggestion("zzz", ["b", "a"]) == "known here: a, b"
    assert suggestion("zzz", []) == ""
