"""Recipes of the launchers of DGX Spark owners: sparkrun (version 2) and eugr's (version 1).

Both start containers on one or several machines over SSH and own the user, the mounts and the
network of a container; what they cannot be told is said in remarks at the top.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from builder.recipes.exports.service import USER_ENVIRONMENT, Holds, Service
from builder.recipes.exports.yaml_text import to_yaml
from builder.recipes.launch import COMPILE_CACHE, PORT
from builder.recipes.rules import command_line

# Flags whose values the launchers read and let a user change; the rest stays in the command.
DEFAULTS = {
    "--tensor-parallel-size": "tensor_parallel", "--pipeline-parallel-size": "pipeline_parallel",
    "--max-model-len": "max_model_len", "--gpu-memory-utilization": "gpu_memory_utilization",
    "--kv-cache-dtype": "kv_cache_dtype", "--max-num-seqs": "max_num_seqs",
    "--max-num-batched-tokens": "max_num_batched_tokens",
    "--served-model-name": "served_model_name", "--host": "host", "--port": "port"}
PARALLEL = "--tensor-parallel-size"
MANAGED = {*USER_ENVIRONMENT, "HF_HOME", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}


def sparkrun(service: Service) -> str:
    """Return a recipe of version 2; for several machines vLLM's own multi-node, or Ray if asked."""
    words = _words(service)
    recipe, nodes = service.recipe, service.asked.nodes
    model = recipe.model.repository or service.mounts[0].source
    if _is_plain(model):
        words = tuple("{model}" if word == model and words[at - 1] in ("serve", "--model")
                      else word for at, word in enumerate(words))
    defaults, command = templated(words, doubled=False)
    document: dict[str, Any] = {
        "recipe_version": "2", "description": recipe.description,
        "model": model,
        **({"model_revision": recipe.model.revision} if recipe.model.repository else {}),
        "runtime": "vllm-ray" if _on_ray(service) else "vllm-distributed",
        "min_nodes": nodes, "max_nodes": nodes,
        "container": service.image.reference, "defaults": defaults,
        "metadata": {"model_params": f"{recipe.model.parameters_billion:g}B"},
        "env": _environment(service), "command": command}
    return to_yaml([f"Save it as {service.name}.yaml: sparkrun takes the name from the file.",
                    *_remarks(service), *_about_nodes(service)], document)


def eugr(service: Service) -> str:
    """Return a recipe of version 1, whose command doubles the braces that are no placeholders.

    Its launcher writes ``export NAME="VALUE"`` for a shell, and the value as it is.
    """
    defaults, command = templated(_words(service), doubled=True)
    defaults.setdefault("tensor_parallel", service.asked.nodes)
    recipe = service.recipe
    document: dict[str, Any] = {
        "recipe_version": "1", "name": service.name, "description": recipe.description,
        **({"model": recipe.model.repository} if recipe.model.repository else {}),
        ("solo_only" if service.asked.nodes == 1 else "cluster_only"): True,
        "container": service.image.reference, "defaults": defaults,
        "env": {name: re.sub(r'[\\"$`]', r"\\\g<0>", value)
                for name, value in _environment(service).items()},
        "command": command}
    return to_yaml([_start_of_eugr(service), *_remarks(service), *_about_nodes(service)], document)


def _start_of_eugr(service: Service) -> str:
    """Say how it is started: its launcher takes Ray for several machines unless told otherwise."""
    nodes = service.asked.nodes
    how = "--solo" if nodes == 1 else f"-n HEAD{',WORKER' * (nodes - 1)}"
    return (f"Start it with: ./run-recipe.py FILE {how}"
            + ("" if nodes == 1 or _on_ray(service) else " --no-ray"))


def for_nodes(words: Sequence[str], nodes: int) -> tuple[str, ...]:
    """Return the command with the model split over ``nodes`` machines of one GPU each."""
    if nodes == 1:
        return tuple(words)
    kept = list(words)
    if PARALLEL in kept:
        at = kept.index(PARALLEL)
        del kept[at:at + 2]
    return (*kept, PARALLEL, str(nodes))


def templated(words: Sequence[str], *, doubled: bool) -> tuple[dict[str, Any], str]:
    """Return the defaults and the command that names them: ``--port {port}``.

    The launchers put a default into the shell's words as it is: one that has to be quoted stands
    in the command itself.
    """
    defaults: dict[str, Any] = {}
    first = next(at for at, word in enumerate(words) if word.startswith("--"))
    lines, at = [_joined(words[:first])], first
    while at < len(words):
        word, key = words[at], DEFAULTS.get(words[at])
        at += 1
        values = []
        while at < len(words) and not words[at].startswith("--"):
            values.append(words[at])
            at += 1
        if key and len(values) == 1 and _is_plain(values[0]):
            defaults[key] = _scalar(values[0])
            lines.append(f"{word} {{{key}}}")
        else:
            text = _joined([word, *values])
            lines.append(text.replace("{", "{{").replace("}", "}}") if doubled else text)
    return defaults, " \\\n  ".join(lines) + "\n"


def _joined(words: Sequence[str]) -> str:
    """Quote for a shell, but for the placeholder of the model."""
    return " ".join(word if word == "{model}" else shlex.quote(word) for word in words)


def _is_plain(text: str) -> bool:
    """Say whether a shell reads the text as itself, and a launcher as no placeholder."""
    return shlex.quote(text) == text


def _scalar(text: str) -> str | int | float:
    if re.fullmatch(r"[1-9][0-9]{0,17}|0", text):
        return int(text)
    return float(text) if re.fullmatch(r"[0-9]{1,18}\.[0-9]{1,18}", text) else text


def _words(service: Service) -> tuple[str, ...]:
    """Return the command for the host's own network, at the address that was asked for."""
    words = list(service.command)
    words[words.index("--host") + 1] = service.asked.host
    if "--chat-template" in words and any(m.holds is Holds.TEMPLATE for m in service.mounts):
        at = words.index("--chat-template")
        del words[at:at + 2]
    if service.recipe.model.path:  # the launchers mount it where it lies
        words = [service.mounts[0].source if word == service.mounts[0].target else word
                 for word in words]
    return for_nodes(words, service.asked.nodes)


def _environment(service: Service) -> Mapping[str, str]:
    """Return what the recipe itself sets; home, caches and being offline are the launcher's."""
    return {name: value for name, value in service.recipe.environment.items()
            if name not in MANAGED}


def _on_ray(service: Service) -> bool:
    return command_line(service.recipe.serve).get("--distributed-executor-backend") == "ray"


def _remarks(service: Service) -> list[str]:
    remarks = [remark for remark in service.remarks if "API key is the line" not in remark]
    remarks.append(f"The launcher owns user, mounts, network and the cache {COMPILE_CACHE}; it "
                   f"uses the host's network, so that the server listens on {service.asked.host}:"
                   f"{PORT} of each machine itself.")
    if service.asked.key_file:
        remarks.append("NOT CARRIED OVER: the file with the API key. These recipes know a key in "
                       "the command or the environment only, where others can read it.")
    template = service.recipe.chat_template
    if template and template.replace:
        remarks.append(f"NOT CARRIED OVER: the chat template of {template.as_of} from "
                       f"{template.url}; the repository's own copy is served.")
    if _on_ray(service):
        remarks.append("The recipe asks for Ray, which has to be in the image: vLLM's own images "
                       "lack it since 0.19, and those of this project have none.")
    if service.recipe.model.path:
        remarks.append("The model is a folder of this host; a launcher finds it only where it "
                       "lies at the same path.")
    dropped = sorted(MANAGED & set(service.recipe.environment))
    if dropped:
        remarks.append(f"Left to the launcher: {', '.join(dropped)}.")
    return remarks


def _about_nodes(service: Service) -> list[str]:
    if service.asked.nodes == 1:
        return []
    return [(f"The model is split over {service.asked.nodes} machines; this recipe was never "
             "measured so.")]
