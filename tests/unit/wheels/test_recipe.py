"""Recipes of compiles: read whole, every error at once, inputs apart from what people read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wheel_recipes import COST, DOCUMENT, document, recipe

from builder.errors import ConfigError, UsageError
from builder.fetch.commits import CommitSource
from builder.wheels.recipe import FOLDER, load_recipe, load_recipes
from builder.wheels.sources import source_archive

ROOT = Path(__file__).parents[3]


def written(folder: Path, value: object, name: str = "vllm") -> Path:
    """Write a document as TOML: inline tables are JSON with other signs."""
    path = folder / FOLDER / f"{name}.toml"
    path.parent.mkdir(exist_ok=True)
    assert isinstance(value, dict)
    path.write_text("".join(f"{key} = {_toml(each)}\n" for key, each in value.items()))
    return path


def _toml(value: object) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items())
        return "{ " + pairs + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def test_a_recipe_is_read_by_its_package(tmp_path: Path) -> None:
    written(tmp_path, DOCUMENT)
    found = load_recipes(tmp_path)
    assert found == {"vllm": recipe()}
    assert found["vllm"].cmake_name("_C") == "_C"


def test_all_errors_at_once_with_their_keys(tmp_path: Path) -> None:
    wrong = document(tag="121A", sources={"main": {"file": "x.whl", "sha256": "0", "size": 1}})
    wrong["targets"]["_C"]["architecture"] = ["12.0f"]
    wrong["targets"]["_C"]["files"] = ["/vllm/_C.so", "vllm/_C_stable_libtorch.abi3.so"]
    wrong["build"]["system"] = "command"
    with pytest.raises(ConfigError) as raised:
        load_recipe(written(tmp_path, wrong))
    problems = {problem.where: problem for problem in raised.value.problems}
    assert {"tag", 'sources.main.file', 'sources.main.sha256', 'sources."main"', "build.command",
            "targets._C.files.0", "targets._C.architecture",
            "targets._C_stable_libtorch.files"} <= set(problems)
    assert problems["targets._C.architecture"].next_step == 'perhaps you meant "architectures"'
    assert "also made by targets._C" in problems["targets._C_stable_libtorch.files"].what


def test_sources_are_an_archive_of_the_index_or_a_commits_files(tmp_path: Path) -> None:
    commit = {"repository": "https://git.example/vllm", "commit": "c" * 40}
    source = {"file": "vllm-0.21.0.tar", "sha256": "d" * 64, "size": 1}
    found = load_recipe(written(tmp_path, document(sources={"0.21.0": {**source, "git": commit}})))
    archive = source_archive(found, "0.21.0")
    assert archive.commit == CommitSource(**commit)
    for wrong in (source, {**source, "file": "vllm-0.21.0.tar.gz", "git": commit}):
        with pytest.raises(ConfigError) as raised:
            load_recipe(written(tmp_path, document(sources={"0.21.0": wrong})))
        assert [problem.where for problem in raised.value.problems] == ['sources."0.21.0".file']


def test_the_file_is_named_after_its_package(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not the package of"):
        load_recipe(written(tmp_path, document(), "flashinfer-jit-cache"))


def test_a_recipe_without_targets_says_what_the_whole_takes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name at least one target"):
        load_recipe(written(tmp_path, document(targets={})))
    assert load_recipe(written(tmp_path, document(targets={}, whole=COST))).whole


def test_a_missing_recipe_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no recipe"):
        load_recipe(tmp_path / FOLDER / "vllm.toml")


def test_inputs_are_what_the_bytes_depend_on() -> None:
    plain = recipe().inputs("0.20.2", ("_C_stable_libtorch",))
    other = document(description="new words", cache_gb=9.0)
    other["targets"]["_C"]["architectures"] = ["12.1a"]
    other["targets"]["_C_stable_libtorch"]["cost"] = {**COST, "cpu_seconds": 1.0}
    other["targets"]["_C_stable_libtorch"]["sources"] = ["csrc/*"]
    other["sources"]["0.21.0"] = {"file": "vllm-0.21.0.tar.gz", "sha256": "d" * 64, "size": 1}
    assert recipe(**other).inputs("0.20.2", ("_C_stable_libtorch",)) == plain
    for key, value in (("tag", "121a"), ("gpu", "sm_120"), ("external", {})):
        changed = recipe(**{key: value}).inputs("0.20.2", ("_C_stable_libtorch",))
        assert (changed == plain) == (key == "tag")


def test_requirements_fit_a_machine() -> None:
    ninja = recipe().toolchain.requirements[0]
    assert ninja.fits("x86_64")
    assert not ninja.fits("aarch64")
    assert ninja.model_copy(update={"file": "wheel-0.45-py3-none-any.whl"}).fits("aarch64")


def test_the_recipes_of_this_checkout_are_whole() -> None:
    for name, found in load_recipes(ROOT).items():
        assert (ROOT / FOLDER / f"{name}.toml").exists()
        assert found.targets or found.whole


def test_flashinfer_finds_each_module_by_its_own_name() -> None:
    found = load_recipes(ROOT)["flashinfer-python"]
    for key, target in found.targets.items():
        name = found.cmake_name(key)
        assert target.files == (f"flashinfer/data/aot/{name}/{name}.so",)
        assert target.new
