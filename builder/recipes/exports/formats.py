"""The formats by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from builder.recipes.exports.compose import compose
from builder.recipes.exports.docker import docker
from builder.recipes.exports.kubernetes import kubernetes
from builder.recipes.exports.launchers import eugr, sparkrun
from builder.recipes.exports.service import Service
from builder.recipes.exports.systemd import systemd

FORMATS: Mapping[str, Callable[[Service], str]] = {
    "docker": docker, "compose": compose, "systemd": systemd, "sparkrun": sparkrun,
    "eugr": eugr, "kubernetes": kubernetes}
