"""Foreign recipes read: placeholders, doubled braces, and one clear error for what cannot be."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from builder.errors import ConfigError, UsageError
from builder.recipes.imports.foreign import Foreign, read_foreign

EUGR = """\
recipe_version: "1"
name: Some Model
model: google/gemma-4-26B-A4B-it
container: vllm-node
mods: [mods/fix]
cluster_only: true
defaults: {port: 8000, tensor_parallel: 2, max_model_len: 4096}
env: {NCCL_SOCKET_IFNAME: enp1s0f0np0, A: 1}
command: |
  B=2 vllm serve google/gemma-4-26B-A4B-it \\
    --max-model-len {max_model_len} --port {port} \\
    --speculative-config '{{"model":"a/b","n":{{"x":1}}}}' \\
    -tp {tensor_parallel}
"""


def read(tmp_path: Path, text: str) -> Foreign:
    (tmp_path / "some.yaml").write_text(text)
    return read_foreign(tmp_path / "some.yaml")


def test_a_recipe_of_eugr(tmp_path: Path) -> None:
    found = read(tmp_path, EUGR)
    assert found.model == "google/gemma-4-26B-A4B-it"
    assert found.words == ("--max-model-len", "4096", "--port", "8000", "--speculative-config",
                           '{"model":"a/b","n":{"x":1}}', "-tp", "2")
    assert found.environment == {"NCCL_SOCKET_IFNAME": "enp1s0f0np0", "A": "1", "B": "2"}
    assert found.other == ("mods",)
    assert found.nodes == 2


def test_a_recipe_of_sparkrun_with_and_without_a_command(tmp_path: Path) -> None:
    head = ("recipe_version: '2'\nmodel: a/b\nruntime: vllm\ndefaults:\n  max_model_len: 10\n"
            "  enforce_eager: true\n  spec: '{\"a\":{\"b\":1}}'\n")
    found = read(tmp_path, head + "command: vllm serve {model} --x '{spec}' --y {unknown}\n")
    assert found.name == "some"
    assert found.words == ("--x", '{"a":{"b":1}}', "--y", "{unknown}")
    assert read(tmp_path, head).words == (
        "--max-model-len", "10", "--enforce-eager", "--spec", '{"a":{"b":1}}')


@pytest.mark.parametrize(("text", "why"), [
    ("a: [", "YAML"), ("- a", "mapping"), ("runtime: sglang\nmodel: a/b", "not vLLM"),
    ("recipe_version: '7'\nmodel: a/b", "7 is not known"), ("name: x", "neither a model"),
    ("model: a/b\ndefaults: 3", "mapping of names"), ("model: a/b\ncommand: [a]", "not a text"),
    ("x: !!python/object:os.system {}", "YAML"), ("\ud800".encode("utf-8", "surrogatepass"), "")])
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, text: str | bytes, why: str) -> None:
    (tmp_path / "bad.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        read_foreign(tmp_path / "bad.yaml")
    assert why in str(caught.value)


def test_a_name_that_yaml_takes_for_something_else_is_refused(tmp_path: Path) -> None:
    text = EUGR.replace("env: {", "env: {NO: 3, ").replace("defaults: {", "defaults: {1: 2, ")
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert [(problem.where, problem.what) for problem in caught.value.problems] == [
        ("defaults.1", "YAML reads its name as int"), ("env.False", "YAML reads its name as bool")]
    assert read(tmp_path, EUGR.replace("env: {", "env: {'NO': 3, ")).environment["NO"] == "3"


@pytest.mark.parametrize("command", [
    "python serve.py", "vllm serve a/b && rm x", "vllm serve $MODEL", "vllm serve 'a",
    "vllm serve --x", "vllm bench a", "vllm serve a/b | tee log"])
def test_a_command_that_is_not_one_server_is_refused(tmp_path: Path, command: str) -> None:
    with pytest.raises(UsageError, match="its command"):
        read(tmp_path, f'model: a/b\ncommand: "{command}"\n')


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_foreign(tmp_path / "none.yaml")


def test_aliases_that_stand_for_endless_text_are_refused(tmp_path: Path) -> None:
    """Twelve lines once kept the import busy until the memory was full."""
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    with pytest.raises(ConfigError, match="aliases"):
        read(tmp_path, f"{bomb}description: *a11\n{EUGR}")


@pytest.mark.parametrize("value", [
    "!!timestamp foo", "!!bool foo", '!!int ""', '!!float ""', "!!int 1:30", "!!float 1:30.5",
    "0x" + "f" * 5000, "9" * 5000, str(2**63), "!!int " + "1:" * 300 + "1"])
@pytest.mark.parametrize("key", ["min_nodes", "model", "x"])
def test_a_value_that_is_not_what_its_tag_says_is_one_clear_error(
        tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigError, match="not readable as YAML"):
        read(tmp_path, f"model: a/b\n{key}: {value}\n")


@pytest.mark.parametrize(("value", "words"), [
    ("!!timestamp foo", "a value is not of the type that its tag names"),
    ("[" * 5000, "it is nested too deeply"), ("[a", "while parsing a flow sequence")])
def test_what_yaml_finds_is_said_in_words(tmp_path: Path, value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"not readable as YAML: {words}"):
        read(tmp_path, f"model: a/b\nx: {value}\n")


def test_a_value_with_a_colon_is_text_as_it_stands(tmp_path: Path) -> None:
    """YAML 1.1 takes it for a number to the base of 60; a long one took hours to be read."""
    long = ":".join(["1"] * 100_000)
    found = read(tmp_path, f"model: a/b\nmin_nodes: {long}\ndefaults: {{p: 8000:30, q: 1:1.5}}\n")
    assert found.nodes == 1
    assert found.words == ("--p", "8000:30", "--q", "1:1.5")


@pytest.mark.parametrize(("number", "given"), [
    ("0x10", "16"), ("-3", "-3"), ("1_000", "1000"), ("0.90", "0.9"), (str(2**63 - 1), None)])
def test_numbers_are_read_as_the_launchers_read_them(
        tmp_path: Path, number: str, given: str | None) -> None:
    assert read(tmp_path, f"model: a/b\ndefaults: {{p: {number}}}\n").words == (
        "--p", given or number)


@pytest.mark.parametrize("defaults", [
    {"a": "x" * 40_000}, {"a": "{b}{b}{b}", "b": "{c}{c}{c}", "c": "y" * 30_000}])
def test_a_command_that_grows_without_end_is_refused_before_it_is_there(
        tmp_path: Path, defaults: dict[str, str]) -> None:
    command = "vllm serve m " + "{a}" * 20_000
    tracemalloc.start()
    with pytest.raises(UsageError, match="its command cannot be read: it is longer than 131,072"):
        read(tmp_path, json.dumps({"defaults": defaults, "command": command}))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100 * 2**20
