"""What a model hub says of a checkpoint: sizes and shapes, committed with revision and source.

``recipes/models/<owner>--<name>.toml`` holds what the memory estimate needs, so that it works
without a hub. A checkpoint in a folder is read itself: ``config.json`` and the headers of its
weights.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from builder.config_file import read_toml, shape_problems
from builder.errors import ConfigError, Problem, UsageError, command
from builder.limits import CONFIG_BYTES, WEIGHT_HEADER_BYTES, read_file
from builder.model import Frozen
from builder.recipes.entry import Date, Entry, Line
from builder.text import one_line

FOLDER = Path("recipes") / "models"
FULL, SLIDING = "full_attention", "sliding_attention"
MOST = 10**18  # of anything that is counted; sums of products of them are still numbers
MOST_LAYERS = 2000  # they are gone through one by one; the deepest models have 130
Count = Annotated[int, Field(gt=0, le=MOST)]
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
              RecursionError, struct.error)
SHOWN = 300  # characters of what is wrong with a foreign file
HUB_KEYS = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
            "num_key_value_heads", "head_dim", "num_global_key_value_heads", "global_head_dim",
            "sliding_window", "layer_types", "num_kv_shared_layers", "vocab_size",
            "max_position_embeddings", "num_experts", "moe_intermediate_size")


class Shape(Frozen):
    """The part of a checkpoint's ``config.json`` that says how much memory it takes.

    The names are the hub's. ``layer_types`` may be one period of the pattern, which is repeated.
    """

    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: Annotated[int, Field(gt=0, le=MOST_LAYERS)]
    num_attention_heads: Count
    num_key_value_heads: Count
    head_dim: Count
    num_global_key_value_heads: Count | None = None
    global_head_dim: Count | None = None
    sliding_window: Count | None = None
    layer_types: Annotated[tuple[str, ...], Field(max_length=MOST_LAYERS)] = (FULL,)
    num_kv_shared_layers: Annotated[int, Field(ge=0)] = 0
    vocab_size: Count
    max_position_embeddings: Count
    num_experts: Count | None = None
    moe_intermediate_size: Count | None = None

    @model_validator(mode="after")
    def _known_layers(self) -> Shape:
        other = set(self.layer_types) - {FULL, SLIDING}
        if other or not self.layer_types:
            raise ValueError(f"layers of the kind {', '.join(sorted(other))} are not understood")
        if SLIDING in self.layer_types and self.sliding_window is None:
            raise ValueError("sliding layers need a sliding_window")
        return self

    def layers(self, kind: str, *, with_shared: bool = True) -> int:
        """Return how many layers are of a kind; shared ones keep no keys and values."""
        count = self.num_hidden_layers - (0 if with_shared else self.num_kv_shared_layers)
        return list(itertools.islice(itertools.cycle(self.layer_types), count)).count(kind)

    def heads(self, kind: str) -> tuple[int, int]:
        """Return the key-value heads of a layer of a kind, and their size."""
        if kind == FULL:
            return (self.num_global_key_value_heads or self.num_key_value_heads,
                    self.global_head_dim or self.head_dim)
        return self.num_key_value_heads, self.head_dim

    def attention_parameters(self) -> int:
        """Return the parameters of the attention layers, as vLLM holds them."""
        total = 0
        for kind in (FULL, SLIDING):
            heads, size = self.heads(kind)
            each = self.hidden_size * size * 2 * (self.num_attention_heads + heads)
            total += each * self.layers(kind)
        return total

    def mlp_parameters(self) -> int:
        """Return the parameters of the dense layers beside the attention."""
        return 3 * self.hidden_size * self.intermediate_size * self.num_hidden_layers

    def expert_parameters(self) -> int:
        """Return the parameters of all experts; 0 for a dense model."""
        each = 3 * self.hidden_size * (self.moe_intermediate_size or 0)
        return each * (self.num_experts or 0) * self.num_hidden_layers

    def linear_parameters(self) -> int:
        """Return the parameters that a quantization touches; embeddings and vision are the rest."""
        return self.attention_parameters() + self.mlp_parameters() + self.expert_parameters()


class ModelFacts(Entry):
    """One checkpoint of the hub, as much of it as the memory estimate needs."""

    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    """The repository on the hub: "owner/name"."""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    """The commit that the figures are of; left out where the source does not say."""
    as_of: Date
    """The day of the source: YYYY-MM-DD."""
    parameters: Count | None = None
    """All parameters, as the hub counts them."""
    weights_bytes: Count
    """The bytes of all tensors, or of the files where only those are known."""
    largest_file_bytes: Count | None = None
    """The largest file with weights: some loaders hold a whole one."""
    bits: Annotated[float, Field(gt=0)] = 16
    """Bits of a quantized weight; 16 for a checkpoint that is not quantized."""
    kv_cache_bits: Annotated[int, Field(gt=0)] = 16
    """Bits of a cached value where no --kv-cache-dtype is given."""
    shares_cache: bool = False
    """A drafter that reads the keys and values of the model that it drafts for."""
    source: Annotated[str, Field(pattern=r"^https?://[!-~]+$")]
    """Where the figures were read."""
    note: Line = ""
    """What the figures depend on."""
    shape: Shape | None = None
    """The shape, as in config.json; left out where `shape_of` names another model's."""
    shape_of: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")] | None = None
    """The model that has the same shape: a quantization changes none."""

    @model_validator(mode="after")
    def _one_shape(self) -> ModelFacts:
        if (self.shape is None) == (self.shape_of is None):
            raise ValueError("name either a shape, or in shape_of the model that has it")
        return self


def facts_path(root: Path, repository: str) -> Path:
    """Return the file of a repository's facts."""
    return root / FOLDER / f"{repository.replace('/', '--')}.toml"


def facts_of(root: Path, repository: str) -> ModelFacts | None:
    """Read the committed facts of a repository, None where there are none; raises ConfigError."""
    path = facts_path(root, repository)
    if not path.is_file():
        return None
    raw = read_toml(path, what="facts of a model",
                    next_step=f"make them: {command('recipe', 'facts', repository)}")
    problems = shape_problems(ModelFacts, raw)
    where = f"{FOLDER}/{path.name}"
    if problems:
        raise ConfigError(where, problems)
    facts = ModelFacts.model_validate(raw)
    if facts.repository != repository:
        raise ConfigError(where, [Problem("repository", f"the file's name says {repository}",
                                          "rename the file, or correct the repository")])
    if facts.shape_of is None:
        return facts
    other = facts_of(root, facts.shape_of) if facts.shape_of != repository else None
    if other is None or other.shape is None:
        raise ConfigError(where, [Problem(
            "shape_of", f"there are no facts of {facts.shape_of}",
            f"make them: {command('recipe', 'facts', facts.shape_of)}")])
    return facts.model_copy(update={"shape": other.shape})


def shape_from(config: Mapping[str, Any]) -> Shape:
    """Read a checkpoint's ``config.json``; raises ValueError for a kind that is not understood."""
    text = config.get("text_config") or config
    values = {key: text[key] for key in HUB_KEYS if text.get(key) is not None}
    heads = values.get("num_attention_heads")
    values.setdefault("num_key_value_heads", heads)
    if "head_dim" not in values and heads:
        values["head_dim"] = values.get("hidden_size", 0) // heads
    return Shape.model_validate(values)


def folder_facts(folder: Path, source: str) -> ModelFacts:
    """Read a checkpoint in a folder; raises UsageError where it cannot be read."""
    try:
        config = json.loads(read_file(folder / "config.json", CONFIG_BYTES, "configuration"))
        sizes = [tensor_bytes(path) for path in sorted(folder.glob("*.safetensors"))]
        return ModelFacts(repository=f"local/{folder.name}", as_of="1970-01-01", source=source,
                          weights_bytes=sum(sizes), largest_file_bytes=max(sizes),
                          shape=shape_from(config))
    except UNREADABLE as error:
        raise UsageError(f"the checkpoint cannot be read: {one_line(str(error), SHOWN)}",
                         where=str(folder), next_step="name a folder that holds a whole "
                         "checkpoint") from error


def tensor_bytes(path: Path) -> int:
    """Return the bytes of the tensors of a safetensors file, from its header."""
    if not path.is_file():  # a pipe would be waited for
        raise ValueError(f"{path.name} is not a regular file")
    with path.open("rb") as handle:
        length = struct.unpack("<Q", handle.read(8))[0]
        if length > WEIGHT_HEADER_BYTES:
            raise ValueError(f"{path.name} has a header of {length} bytes")
        header = json.loads(handle.read(length))
    return max((entry["data_offsets"][1] for name, entry in header.items()
                if name != "__metadata__"), default=0)
