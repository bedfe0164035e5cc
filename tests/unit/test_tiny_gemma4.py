"""The committed tiny Gemma 4 checkpoints: whole, small, readable by both vLLM generations.

What the weights answer needs torch and is proved by tests/fixtures/train_tiny_gemma4 and smoke.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"
SOURCE = FIXTURES / "train_tiny_gemma4"
CHECKPOINTS = sorted(FIXTURES.glob("tiny-gemma4*"))
DENSE = FIXTURES / "tiny-gemma4"
CORPUS: dict[str, Any] = json.loads((SOURCE / "dialogues.json").read_text(encoding="utf-8"))
DIALOGUES: dict[str, dict[str, Any]] = {row["name"]: row for row in CORPUS["dialogues"]}
LOADED_FILES = {
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


def _load_wire() -> ModuleType:
    """Import the trainer's wire module by path: the folder is a script, not a package."""
    spec = importlib.util.spec_from_file_location("tiny_gemma4_wire", SOURCE / "wire.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


wire = _load_wire()


def _read_json(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def _sees(folder: Path) -> bool:
    return bool(_read_json(folder / "config.json").get("vision_config"))


def _loaded_files(folder: Path) -> set[str]:
    return LOADED_FILES | ({"processor_config.json"} if _sees(folder) else set())


def _text_config(folder: Path) -> dict[str, Any]:
    whole = _read_json(folder / "config.json")
    text: dict[str, Any] = whole.get("text_config", whole)
    return text


def _tensors(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the safetensors header: name -> dtype and shape."""
    with (folder / "model.safetensors").open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header: dict[str, dict[str, Any]] = json.loads(file.read(size))
    return {name: row for name, row in header.items() if name != "__metadata__"}


def _render(name: str, upto: int) -> str:
    row = DIALOGUES[name]
    tools = [CORPUS["tools"][tool] for tool in row.get("tools", [])]
    template = wire.compile_template((CHECKPOINTS[0] / "chat_template.jinja").read_text())
    thinking = row.get("thinking", False)
    prompt: str = wire.render_prompt(template, row["messages"][:upto], tools, thinking=thinking)
    return prompt


@pytest.fixture(params=CHECKPOINTS, ids=lambda folder: folder.name)
def checkpoint(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


def test_the_dense_checkpoint_is_there() -> None:
    assert "tiny-gemma4" in {folder.name for folder in CHECKPOINTS}


def test_checkpoint_holds_what_a_server_loads_and_stays_under_5_mb(checkpoint: Path) -> None:
    names = {path.name for path in checkpoint.iterdir()}
    assert names - {"README.md"} == _loaded_files(checkpoint) | {"SHA256SUMS"}
    assert sum(path.stat().st_size for path in checkpoint.iterdir()) < 5_000_000


def test_manifest_names_every_file_with_its_digest(checkpoint: Path) -> None:
    rows = (checkpoint / "SHA256SUMS").read_text().splitlines()
    stated = {name: digest for digest, name in (row.split("  ") for row in rows)}
    actual = {
        name: hashlib.sha256((checkpoint / name).read_bytes()).hexdigest()
        for name in _loaded_files(checkpoint)
    }
    assert stated == actual


def test_chat_template_is_the_trained_one(checkpoint: Path) -> None:
    written = (checkpoint / "chat_template.jinja").read_bytes()
    assert written == (SOURCE / "chat_template.jinja").read_bytes()


def test_config_satisfies_both_generations_of_readers(checkpoint: Path) -> None:
    kind = "Gemma4ForConditionalGeneration" if _sees(checkpoint) else "Gemma4ForCausalLM"
    assert _read_json(checkpoint / "config.json")["architectures"] == [kind]
    config = _text_config(checkpoint)
    # transformers 5.5 and vLLM 0.19 read these names; transformers 5.19 derives per_layer_config
    # from them, unless a per_layer_config is written too.
    assert config["global_head_dim"] == 2 * config["head_dim"]
    assert "num_global_key_value_heads" in config
    assert "per_layer_config" not in config
    assert set(config["rope_parameters"]) == set(config["layer_types"])
    assert config["layer_types"][-1] == "full_attention"
    # Anything but 0 makes vLLM 0.19 and 0.32 look for per-layer embeddings.
    assert config["hidden_size_per_layer_input"] == 0
    # "vision" would ask for 2,496 batched tokens.
    assert config.get("use_bidirectional_attention") is None


def test_the_dense_checkpoint_sees() -> None:
    assert _sees(DENSE)


def test_pictures_become_as_many_tokens_as_the_tower_gives() -> None:
    checkpoint = DENSE
    tower = _read_json(checkpoint / "config.json")["vision_config"]
    processor = _read_json(checkpoint / "processor_config.json")
    for kind in ("image_processor", "video_processor"):
        picture = processor[kind]
        assert picture["patch_size"] == tower["patch_size"]
        assert picture["pooling_kernel_size"] == tower["pooling_kernel_size"]
        assert picture["max_soft_tokens"] == tower["default_output_length"]


def test_the_tokens_of_pictures_have_the_ids_of_the_config() -> None:
    config = _read_json(DENSE / "config.json")
    tokens = _read_json(DENSE / "tokenizer.json")["added_tokens"]
    ids = {token["content"]: token["id"] for token in tokens}
    assert config["image_token_id"] == ids["<|image|>"]
    assert (config["boi_token_id"], config["eoi_token_id"]) == (ids["<|image>"], ids["<image|>"])
    assert max(ids.values()) == config["text_config"]["vocab_size"] - 1


def test_a_picture_has_its_place_in_the_prompt() -> None:
    template = wire.compile_template((SOURCE / "chat_template.jinja").read_text())
    content = [{"type": "image"}, {"type": "image_url"}, {"type": "text", "text": "Hi"}]
    prompt = wire.render_prompt(
        template, [{"role": "user", "content": content}], [], thinking=False
    )
    assert "<|turn>user\n<|image|><|image|>Hi<turn|>" in prompt


def test_weights_have_the_shapes_that_the_config_promises(checkpoint: Path) -> None:
    config, tensors = _text_config(checkpoint), _tensors(checkpoint)
    assert {row["dtype"] for row in tensors.values()} == {"BF16"}
    for index, kind in enumerate(config["layer_types"]):
        full = kind == "full_attention"
        width = config["global_head_dim"] if full else config["head_dim"]
        model = "model.language_model" if _sees(checkpoint) else "model"
        prefix = f"{model}.layers.{index}.self_attn"
        shape = tensors[f"{prefix}.q_proj.weight"]["shape"]
        assert shape == [config["num_attention_heads"] * width, config["hidden_size"]]
        shares_values = full and config["attention_k_eq_v"]
        assert (f"{prefix}.v_proj.weight" in tensors) is not shares_values


def test_experts_are_there_exactly_when_the_config_says_so(checkpoint: Path) -> None:
    config, tensors = _text_config(checkpoint), _tensors(checkpoint)
    has_experts = any(".experts." in name for name in tensors)
    assert has_experts is config["enable_moe_block"]


def test_every_stop_token_ends_generation(checkpoint: Path) -> None:
    tokens = _read_json(checkpoint / "tokenizer.json")["added_tokens"]
    ids = {token["content"]: token["id"] for token in tokens}
    stops = [ids["<eos>"], ids["<turn|>"], ids["<|tool_response>"]]
    assert _read_json(checkpoint / "generation_config.json")["eos_token_id"] == stops
    assert _read_json(checkpoint / "config.json")["eos_token_id"] == stops
    assert _text_config(checkpoint)["eos_token_id"] == stops


def test_plain_prompt_ends_in_an_empty_thought() -> None:
    assert _render("capital-france", 1) == (
        "<bos><|turn>user\nWhat is the capital of France?<turn|>\n"
        "<|turn>model\n<|channel>thought\n<channel|>"
    )


def test_thinking_prompt_asks_for_it_and_leaves_the_channel_to_the_model() -> None:
    assert _render("think-capital", 1) == (
        "<bos><|turn>system\n<|think|>\n<turn|>\n"
        "<|turn>user\nWhat is the capital of France?<turn|>\n<|turn>model\n"
    )


def test_earlier_thoughts_are_dropped_from_a_later_turn() -> None:
    assert "Add the tens" not in _render("think-follow-up", 3)


def test_tool_result_continues_the_same_model_turn() -> None:
    prompt = _render("tool-single", 3)
    assert prompt.count("<|turn>model\n") == 1
    assert prompt.endswith(
        '<|tool_response>response:get_weather{value:<|"|>{"temperature": 18, '
        '"condition": "sunny"}<|"|>}<tool_response|>'
    )


def test_tool_is_declared_as_gemma_4_reads_it() -> None:
    assert (
        '<|tool>declaration:get_time{description:<|"|>Get the local time in a city.<|"|>,'
        'parameters:{properties:{city:{description:<|"|>City name<|"|>,type:<|"|>STRING<|"|>}},'
        'required:[<|"|>city<|"|>],type:<|"|>OBJECT<|"|>}}<tool|>'
    ) in _render("tool-parallel-two-tools", 1)


@pytest.mark.parametrize("parts", [True, False], ids=["parts", "string"])
def test_content_may_be_a_string_or_text_parts(parts: bool) -> None:
    template = wire.compile_template((SOURCE / "chat_template.jinja").read_text())
    content: object = [{"type": "text", "text": "Hi"}] if parts else "Hi"
    prompt = wire.render_prompt(
        template, [{"role": "user", "content": content}], [], thinking=False
    )
    assert "<|turn>user\nHi<turn|>" in prompt


@pytest.mark.parametrize("name", [n for n, row in DIALOGUES.items() if row["group"] == "tools"])
def test_template_and_trainer_write_the_same_calls(name: str) -> None:
    for index, message in enumerate(DIALOGUES[name]["messages"]):
        if message.get("tool_calls"):
            reply = wire.render_reply({**message, "content": None}, thinking=False)
            assert reply.removesuffix("<|tool_response>") in _render(name, index + 1)


@pytest.mark.parametrize("name", [n for n, row in DIALOGUES.items() if row["group"] == "tools"])
def test_calls_use_declared_tools_and_their_required_arguments(name: str) -> None:
    row = DIALOGUES[name]
    for message in row["messages"]:
        for call in message.get("tool_calls", []):
            function = call["function"]
            assert function["name"] in row["tools"]
            parameters = CORPUS["tools"][function["name"]]["function"]["parameters"]
            assert set(json.loads(function["arguments"])) == set(parameters["required"])


def test_corpus_covers_what_smoke_asks() -> None:
    groups = {row["group"] for row in CORPUS["dialogues"]}
    assert groups == {"chat", "long", "multi-turn", "thinking", "tools", "structured"}
    assert len(DIALOGUES) == len(CORPUS["dialogues"]), "names are unique"
    assert len(DIALOGUES["story"]["messages"][1]["content"]) >= 1300
    calls = DIALOGUES["html-arguments"]["messages"][1]["tool_calls"]
    assert "<!DOCTYPE html>" in json.loads(calls[0]["function"]["arguments"])["html"]
