"""A systemd unit that keeps the container running and starts it with the machine."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from builder.cache_folder import named_folder
from builder.recipes.exports.docker import fixed_options
from builder.recipes.exports.service import Holds, Mount, Service, single
from builder.recipes.hub import hub_folder

UNIT = """\
{remarks}
# Install: write this to /etc/systemd/system/{name}.service, then
#   sudo systemctl daemon-reload && sudo systemctl enable --now {name}
[Unit]
Description={description}
Wants=docker.service network-online.target
After=docker.service network-online.target
StartLimitIntervalSec=1h
StartLimitBurst=5

[Service]
Type=exec
ExecStartPre=-{docker} rm --force {name}
ExecStart={start}
ExecStop={docker} stop --time 60 {name}
Restart=on-failure
RestartSec=30
TimeoutStopSec=90

[Install]
WantedBy=multi-user.target
"""


def systemd(service: Service) -> str:
    """Return the unit. The user and the folders are those of whoever asks for it.

    A unit has no shell: paths are absolute, and a ``$`` or ``%`` of a value is doubled.
    """
    single(service, "systemd")
    engine = shutil.which("docker") or "/usr/bin/docker"
    groups = [(engine, "run", "--rm"), ("--name", service.name),
              ("--user", f"{os.getuid()}:{os.getgid()}"), *fixed_options(service)]
    if service.asked.key_file:
        groups += [("--env-file", str(Path(service.asked.key_file).absolute()))]
    for mount in service.mounts:
        groups += [("-v", f"{host_path(mount)}:{mount.target}{':ro' if mount.read_only else ''}")]
    groups += [(service.image.reference,), service.command]
    return UNIT.format(
        remarks="\n".join(f"# {remark}" for remark in (*service.remarks, *_before(service))),
        name=service.name, description=_text(service.recipe.description),
        docker=_word(engine), start=" \\\n  ".join(" ".join(map(_word, group)) for group in groups))


def host_path(mount: Mount) -> str:
    """Return the absolute path of this host."""
    if mount.holds is Holds.HUB:
        return str(hub_folder())
    if mount.holds is Holds.COMPILED:
        return str(named_folder() / mount.source)
    return str(Path(mount.source).absolute())


def _before(service: Service) -> list[str]:
    folders = [host_path(mount) for mount in service.mounts
               if mount.holds in (Holds.HUB, Holds.COMPILED) and not mount.read_only]
    lines = [f"Before the first start: mkdir -p {shlex.join(folders)}"] if folders else []
    return [*lines, *(f"Before the first start: {step}" for step in service.steps)]


def _text(text: str) -> str:
    """Write a line of text; a backslash at its end would take in the next line of the unit."""
    return text.replace("%", "%%").rstrip("\\ ")


def _word(text: str) -> str:
    """Quote one word as a unit reads it."""
    doubled = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    safe = text and all(char.isalnum() or char in "-_./:=,@+" for char in text)
    return doubled if safe else f'"{doubled}"'
