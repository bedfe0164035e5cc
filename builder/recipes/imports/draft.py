"""A draft of our recipe from a foreign one, and all that could not be carried over.

Nothing is invented: a number that neither the file nor the model's name states is left to be
filled in, and the draft says so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from builder.config_file import shape_problems
from builder.recipes.imports.foreign import Foreign
from builder.recipes.models import COMMIT, OWN_FLAGS, Recipe
from builder.text import visible

LONG = {"-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size",
        "-dp": "--data-parallel-size", "--tp": "--tensor-parallel-size"}
SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD", re.IGNORECASE)
# Names of one host's network devices: another host has others.
HOST_NETWORK = re.compile(r"(NCCL_(SOCKET_IFNAME|IB_.*)|GLOO_SOCKET_IFNAME|TP_SOCKET_IFNAME"
                          r"|UCX_NET_DEVICES|OMPI_MCA_.*|MN_IF_NAME|VLLM_HOST_IP|MASTER_ADDR)")
PARALLEL = {"--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"}
OF_THE_LAUNCHER = {"--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless",
                   "--distributed-executor-backend"}
FAMILIES = (("gemma4", r"gemma-?4"), ("gemma3", r"gemma-?3"), ("qwen3", r"qwen-?3"),
            ("llama", r"llama"))
BILLIONS = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)B(?![A-Za-z0-9])", re.IGNORECASE)
ACTIVE = re.compile(r"(?<![A-Za-z0-9.])A(\d+(?:\.\d+)?)B(?![A-Za-z0-9])", re.IGNORECASE)
STATED = re.compile(r"\A(\d+(?:\.\d+)?)\s*B\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Draft:
    """Our recipe's keys in their order, where it came from, and what it lacks.

    ``missing`` are keys that somebody has to fill in before the draft can be loaded.
    """

    name: str
    document: dict[str, Any]
    origin: str
    lost: tuple[str, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())


def draft(foreign: Foreign, image: str) -> Draft:
    """Carry over what has a place in our recipes, and list the rest."""
    lost: list[str] = []
    family = next((name for name, pattern in FAMILIES
                   if re.search(pattern, foreign.model, re.IGNORECASE)), "other")
    serve = _arguments(foreign, family, lost)
    environment = dict(_environment(foreign, family, lost))
    model, missing, notes = _model(foreign)
    lost += _rest(foreign, image)
    name = re.sub(r"[^a-z0-9]+", "-", foreign.name.lower()).strip("-") or "imported"
    document = {
        "schema": 1, "description": " ".join(foreign.description.split()) or f"{foreign.model}",
        "family": family, "image": image, "serve": serve, "model": model,
        "environment": environment, "capabilities": _capabilities(serve, family)}
    return Draft(name, document, f"version {foreign.version} recipe {foreign.name!r}", tuple(lost),
                 tuple(missing), tuple(notes))


def to_toml(found: Draft) -> str:
    """Return the draft as the file ``recipes/NAME.toml``, what it lacks as comments at its top."""
    document = {key: value for key, value in found.document.items() if value not in ({}, [])}
    tables = {key: value for key, value in document.items() if isinstance(value, dict)}
    lines = ["#:schema ../docs/recipe.schema.json",
             *_comment(f"DRAFT from a {found.origin}; save it as recipes/{found.name}.toml."),
             *(line for loss in found.lost for line in _comment(f"NOT CARRIED OVER: {loss}")),
             *(line for note in found.notes for line in _comment(note)),
             *(f"{key} = {_value(value)}" for key, value in document.items() if key not in tables)]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in table.items())]
        if name == "model":
            lines += [f"# FILL IN: {key} = " for key in found.missing]
    return "\n".join(lines) + "\n"


def problems(found: Draft) -> list[str]:
    """Return why the draft is no recipe yet, by key; empty for one that can be used as it is."""
    document = {"name": found.name, **found.document}
    return [f"{problem.where}: {problem.what}" for problem in shape_problems(Recipe, document)]


def _arguments(foreign: Foreign, family: str, lost: list[str]) -> list[str]:
    kept: list[str] = []
    for flag, values in _flags(foreign.words):
        reason = _why_not(flag, values, foreign, family)
        if reason is None:
            kept += [flag, *values]
        elif reason:
            shown = [] if flag == "--api-key" else values
            lost.append(f"{' '.join([flag, *shown])}: {reason}")
    return kept


def _why_not(flag: str, values: list[str], foreign: Foreign, family: str) -> str | None:
    """Return why a flag is left out: None where it is kept, empty where nothing is lost."""
    same = {"--served-model-name": [_served_name(foreign.model)],
            "--revision": [foreign.revision or (values or [""])[0]]}
    if flag in ("--host", "--port", "--model") or values == same.get(flag):
        return ""
    reasons = {
        "--api-key": "a key is never part of a recipe",
        "--revision": "model_revision is taken",
        **dict.fromkeys(OF_THE_LAUNCHER, "the launcher of several machines sets it")}
    if flag in PARALLEL and values != ["1"]:
        return "one machine has one GPU"
    if flag == "--attention-backend" and family == "gemma4":
        return "vLLM has to choose it itself for Gemma 4"
    if flag in OWN_FLAGS and flag not in reasons:
        return "Sparkyard sets this flag itself (docs/recipes.md)"
    return reasons.get(flag)


def _served_name(model: str) -> str:
    """Return what our servers call the model."""
    return model.rpartition("/")[2] if model.startswith("/") else model


def _flags(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each flag with its values, ``--flag=value`` taken apart and short names made long."""
    flag = ""
    values: list[str] = []
    for word in words:
        if re.match(r"--?[A-Za-z]", word):
            if flag:
                yield flag, values
            flag, _, value = word.partition("=")
            flag, values = LONG.get(flag, flag), [value] if value else []
        else:
            values.append(word)
    if flag:
        yield flag, values


def _environment(foreign: Foreign, family: str, lost: list[str]) -> Iterator[tuple[str, str]]:
    for name, value in foreign.environment.items():
        if SECRET.search(name):
            lost.append(f"env.{name}: a secret is never part of a recipe")
        elif HOST_NETWORK.fullmatch(name):
            lost.append(f"env.{name}: it names a network device or address of one host")
        elif family == "gemma4" and name == "VLLM_ATTENTION_BACKEND":
            lost.append(f"env.{name}: vLLM has to choose it itself for Gemma 4")
        elif not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or not value.isprintable():
            lost.append(f"env.{name}: its name or value cannot stand in a recipe")
        else:
            yield name, value


def _model(foreign: Foreign) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the table of the model, the keys that nobody knows, and where numbers come from."""
    model: dict[str, Any] = {}
    if re.fullmatch(r"[\w.-]+/[\w.-]+", foreign.model):
        revision = foreign.revision or _option(foreign.words, "--revision") or "main"
        model = {"repository": foreign.model, "revision": revision}
        if not re.fullmatch(COMMIT, revision):
            model["unpinned_because"] = "the imported recipe names no commit"
    else:
        model = {"path": foreign.model}
    stated = _billions(foreign.metadata.get("model_params"))
    in_name = _numbers(BILLIONS, foreign.model)
    active = _numbers(ACTIVE, foreign.model)
    notes, missing = [], []
    total = stated or (max(in_name) if in_name else None)
    if total:
        model["parameters_billion"] = total
        notes.append("parameters_billion: " + ("metadata.model_params of the imported recipe."
                                               if stated else "read from the model's name."))
    else:
        missing.append("parameters_billion")
    if active:
        model["active_billion"] = active[0]
        notes.append("active_billion: read from the model's name.")
    else:
        missing.append("active_billion")
    return model, missing, notes


def _numbers(pattern: re.Pattern[str], text: str) -> list[float]:
    return [number for number in map(float, pattern.findall(text)) if math.isfinite(number)]


def _billions(value: Any) -> float | None:
    """Return billions of parameters from ``31B`` or a plain number of parameters."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 10**6:
        return value / 10**9 if math.isfinite(value) else None
    numbers = _numbers(STATED, str(value))
    return numbers[0] if numbers else None


def _capabilities(serve: Sequence[str], family: str) -> dict[str, bool]:
    """Return what the arguments switch on; ``reasoning`` only where the smoke test can judge it."""
    found = {}
    if "--tool-call-parser" in serve:
        found["tools"] = True
    if "--reasoning-parser" in serve and family in ("gemma4", "qwen3"):
        found["reasoning"] = True
    return found


def _rest(foreign: Foreign, image: str) -> Iterator[str]:
    if foreign.container:
        yield f"container {foreign.container}: our image {image} is used"
    if foreign.nodes > 1:
        yield (f"{foreign.nodes} machines: a recipe of ours is served on one; export it with "
               "--nodes for a launcher")
    for key in foreign.other:
        yield f"{key}: our recipes have no such key"


def _option(words: Sequence[str], wanted: str) -> str:
    return next((values[0] for flag, values in _flags(words) if flag == wanted and values), "")


def _comment(text: str) -> Iterable[str]:
    return [f"# {visible(' '.join(text.split()))}"]


def _value(value: Any) -> str:
    """Write a value as TOML: its strings are JSON's, but for one control character."""
    if isinstance(value, list):
        lines = []
        for flag, values in _flags(value):
            lines.append("    " + ", ".join(map(_value, [flag, *values])) + ",")
        return "[\n" + "\n".join(lines) + "\n]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
