"""Pins: which model runs on which image, with which flags, and what is known to go wrong.

``recipes/<name>.toml`` is data that people write; every figure in it names its source and where
it was measured, and every blocked version its reason and the upstream link.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from builder.config_file import read_toml, shape_problems, suggestion
from builder.errors import ConfigError, UsageError
from builder.model import Frozen, Link, Name, RequirementText, Specifier
from builder.recipes.log import LogExpectation

FOLDER = "recipes"
COMMIT = r"[0-9a-f]{40}"
OWN_FLAGS = ("--model", "--host", "--port", "--revision", "--chat-template", "--served-model-name")

Where = Literal["published", "emulated", "cpu", "gb10"]


class Model(Frozen):
    """The checkpoint: a repository of a model hub, or a folder of this checkout (``path``).

    A hub revision that is not a commit moves; ``unpinned_because`` then has to say why it is
    not one.
    """

    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")] | None = None
    path: str | None = None
    revision: str = "main"
    unpinned_because: str = ""
    parameters_billion: Annotated[float, Field(gt=0)]
    active_billion: Annotated[float, Field(gt=0)]

    @property
    def pinned(self) -> bool:
        """Say whether the bytes are fixed: a commit of the hub, or a folder of this checkout."""
        return self.path is not None or re.fullmatch(COMMIT, self.revision) is not None

    @property
    def name(self) -> str:
        """Return what the server calls the model."""
        return self.repository or Path(self.path or "").name

    @model_validator(mode="after")
    def _one_origin(self) -> Model:
        if (self.repository is None) == (self.path is None):
            raise ValueError("name either a repository of a hub or a path of this checkout")
        if not self.pinned and not self.unpinned_because:
            raise ValueError(f"revision {self.revision!r} moves; pin a commit, or say why not "
                             "in unpinned_because")
        return self


class Capabilities(Frozen):
    """What the model can do through this server; each is a set of smoke probes.

    A model that is not ``general`` says only what it was trained to say word for word.
    """

    text: bool = True
    general: bool = True
    tools: bool = False
    reasoning: bool = False
    vision: bool = False
    languages: tuple[Annotated[str, Field(pattern=r"^[a-z]{2,3}$")], ...] = ("en",)


class Figure(Frozen):
    """One published or measured number: a value or a range, on what, with what, said where."""

    metric: Literal["decode", "prefill", "aggregate", "time-to-first-token", "boot", "tpot"]
    value: float
    up_to: float | None = None
    unit: Literal["tok/s", "ms", "s"]
    concurrency: Annotated[int, Field(ge=1)] = 1
    where: Where
    hardware: str
    vllm: str = ""
    note: str = ""
    source: Link


class Memory(Frozen):
    """What the server was seen to take: GiB of weights and KV cache, tokens that fit, GB in all."""

    weights_gib: float | None = None
    kv_cache_gib: float | None = None
    kv_cache_tokens: int | None = None
    used_gb: float | None = None
    where: Where
    hardware: str
    source: Link


class BlockedVersion(Frozen):
    """Versions of a package that this model does not run on, why, and where upstream says so."""

    package: Literal["vllm", "torch", "transformers", "flashinfer-python"] = "vllm"
    versions: Specifier
    reason: str = Field(min_length=1)
    link: Link
    caused_by: Link | None = None
    fixed_by: Link | None = None


class ChatTemplate(Frozen):
    """The template that the model's owner publishes: a stale copy spoils answers unnoticed.

    The served one must have this digest; with ``replace`` the file at ``url`` is served instead
    of the repository's own copy.
    """

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    url: Link | None = None
    as_of: str
    replace: bool = False

    @model_validator(mode="after")
    def _replaced_from_somewhere(self) -> ChatTemplate:
        if self.replace and self.url is None:
            raise ValueError("replace needs the url of the template")
        return self


class Recipe(Frozen):
    """One pin; ``name`` is its file's name.

    ``serve`` are the arguments of ``vllm serve`` after the model; address, port, model,
    revision and template are added where the command is made. ``requires`` are packages of the
    image that the model needs, ``vllm`` meaning whichever distribution the cell installs.
    """

    name: Name
    schema_version: Literal[1] = Field(alias="schema")
    description: str
    family: Literal["gemma4"]
    image: Name
    model: Model
    serve: tuple[str, ...]
    environment: Mapping[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")], str] = Field(
        default_factory=dict)
    requires: tuple[RequirementText, ...] = ()
    capabilities: Capabilities = Capabilities()
    log: LogExpectation = LogExpectation()
    published: tuple[Figure, ...] = ()
    memory: tuple[Memory, ...] = ()
    blocked: tuple[BlockedVersion, ...] = ()
    chat_template: ChatTemplate | None = None

    @field_validator("serve")
    @classmethod
    def _no_own_flag(cls, serve: tuple[str, ...]) -> tuple[str, ...]:
        for flag in OWN_FLAGS:
            if any(word == flag or word.startswith(f"{flag}=") for word in serve):
                raise ValueError(f"{flag} is added by Sparkyard; leave it out")
        return serve

    @model_validator(mode="after")
    def _no_attention_backend(self) -> Recipe:
        """Refuse a choice that Gemma 4 does not leave: its head sizes (256 and 512) force one."""
        if (any(word.startswith("--attention-backend") for word in self.serve)
                or "VLLM_ATTENTION_BACKEND" in self.environment):
            raise ValueError("never set an attention backend for Gemma 4: its head sizes of 256 "
                             "and 512 leave TRITON_ATTN only, and vLLM chooses that itself")
        return self


def parse_recipe(raw: dict[str, Any], name: str) -> Recipe:
    """Check a parsed recipe; raise ConfigError with every error that it holds."""
    document = {"name": name, **raw}
    problems = shape_problems(Recipe, document)
    if problems:
        raise ConfigError(f"{FOLDER}/{name}.toml", problems)
    return Recipe.model_validate(document)


def recipe_names(root: Path) -> list[str]:
    """Return the names of all recipes of a checkout, sorted."""
    return sorted(path.stem for path in (root / FOLDER).glob("*.toml"))


def load_recipe(root: Path, name: str) -> Recipe:
    """Read ``recipes/<name>.toml``; raises UsageError for an unknown name, ConfigError."""
    known = recipe_names(root)
    hint = suggestion(name, known)
    if name not in known:
        raise UsageError(f'there is no recipe "{name}"', where=FOLDER, next_step=hint)
    return parse_recipe(read_toml(root / FOLDER / f"{name}.toml", what="recipe", next_step=hint),
                        name)
