"""A file for ``docker compose``."""

from __future__ import annotations

import os
from typing import Any

from builder.recipes.exports.service import WORKING_FOLDER, Holds, Mount, Service, bracketed, single
from builder.recipes.exports.yaml_text import to_yaml
from builder.recipes.launch import PORT

HUB_SOURCE = "${HF_HOME:-${HOME}/.cache/huggingface}"
CACHE_SOURCE = "${SPARKYARD_CACHE:-${XDG_CACHE_HOME:-${HOME}/.cache}/sparkyard}"
# Python is in every image; curl is not.
HEALTH = ("import urllib.request as r; "
          f"r.urlopen('http://127.0.0.1:{PORT}/health', timeout=5)")


def compose(service: Service) -> str:
    """Return the file; compose knows no user id, so the caller's own is written into it."""
    single(service, "compose")
    environment: dict[str, str | None] = {
        name: _literal(value) for name, value in service.environment.items()}
    if service.needs_hub:
        environment["HF_TOKEN"] = None  # by name, where the user has one
    body: dict[str, Any] = {
        "image": service.image.reference, "command": [_literal(word) for word in service.command],
        "user": f"{os.getuid()}:{os.getgid()}", "working_dir": WORKING_FOLDER,
        "environment": environment,
        **({"env_file": [_literal(service.asked.key_file)]} if service.asked.key_file else {}),
        "ports": [f"{bracketed(service.asked.host)}:{PORT}:{PORT}"],
        "volumes": [_volume(mount) for mount in service.mounts],
        "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"],
        "shm_size": service.shared_memory, "restart": "unless-stopped",
        "stop_grace_period": "60s",
        "healthcheck": {"test": ["CMD", "python3", "-c", HEALTH], "interval": "30s",
                        "timeout": "10s", "start_period": "30m"}}
    if service.cell.is_cuda:
        body["deploy"] = {"resources": {"reservations": {"devices": [
            {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]}}}
    remarks = [*service.remarks, *(f"Before: {line}" for line in _before(service))]
    # A project takes no dot.
    return to_yaml(remarks, {"name": service.name.replace(".", "-"), "services": {"vllm": body}})


def _before(service: Service) -> list[str]:
    folders = [_source(mount) for mount in service.mounts
               if mount.holds in (Holds.HUB, Holds.COMPILED) and not mount.read_only]
    quoted = " ".join(f'"{folder}"' for folder in folders)
    return [*([f"mkdir -p {quoted}"] if folders else []), *service.steps]


def _volume(mount: Mount) -> dict[str, Any]:
    """Return a bind mount that refuses a missing source: the engine would make it root's own."""
    return {"type": "bind", "source": _source(mount), "target": mount.target,
            "read_only": mount.read_only, "bind": {"create_host_path": False}}


def _source(mount: Mount) -> str:
    if mount.holds is Holds.HUB:
        return HUB_SOURCE
    if mount.holds is Holds.COMPILED:
        return f"{CACHE_SOURCE}/{_literal(mount.source)}"
    return f"./{mount.source}" if mount.holds is Holds.TEMPLATE else _literal(mount.source)


def _literal(text: str) -> str:
    return text.replace("$", "$$")
