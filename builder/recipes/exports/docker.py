"""``docker run``, for a shell: all values quoted, only the user's own folders left to it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from builder.recipes.exports.service import (
    WORKING_FOLDER,
    Holds,
    Mount,
    Service,
    bracketed,
    single,
)
from builder.recipes.launch import PORT

# The host's folders as a shell finds them: ``host_folders`` and ``hub_folder`` read the same.
SHELL_HUB = '"${HF_HOME:-$HOME/.cache/huggingface}"'
SHELL_CACHE = '"${SPARKYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sparkyard}"'


def docker(service: Service) -> str:
    """Return a script: remarks, what has to be done before, and the command."""
    single(service, "docker")
    return "\n".join([*(f"# {remark}" for remark in service.remarks), *before(service),
                      docker_command(service)]) + "\n"


def before(service: Service) -> tuple[str, ...]:
    """Return the shell lines that come first: the engine would make missing folders root's own."""
    folders = [_source(mount) for mount in service.mounts
               if mount.holds in (Holds.HUB, Holds.COMPILED) and not mount.read_only]
    return (*([f"mkdir -p {' '.join(folders)}"] if folders else []), *service.steps)


def docker_command(service: Service) -> str:
    """Return ``docker run …`` over several lines, one option with its value to a line."""
    options = ["docker run --rm -it", f"--name {shlex.quote(service.name)}",
               '--user "$(id -u):$(id -g)"']
    options += map(shlex.join, fixed_options(service))
    if service.asked.key_file:
        options += [f"--env-file {shlex.quote(service.asked.key_file)}"]
    options += [f"-v {_source(mount)}:{shlex.quote(mount.target)}{':ro' * mount.read_only}"
                for mount in service.mounts]
    if service.needs_hub:
        options += ["-e HF_TOKEN"]  # by name, where the user has one: its value is never printed
    first = next(at for at, word in enumerate(service.command) if word.startswith("--"))
    return " \\\n  ".join([*options, shlex.quote(service.image.reference),
                           shlex.join(service.command[:first]), *paired(service.command[first:])])


def fixed_options(service: Service) -> Iterator[tuple[str, ...]]:
    """Yield the options of ``docker run`` that depend on nothing of the host's."""
    yield ("--workdir", WORKING_FOLDER)
    yield ("--cap-drop", "ALL")
    yield ("--security-opt", "no-new-privileges")
    if service.cell.is_cuda:
        yield ("--gpus", "all")
    yield ("--shm-size", service.shared_memory)
    yield ("-p", f"{bracketed(service.asked.host)}:{PORT}:{PORT}")
    yield from (("-e", f"{name}={value}") for name, value in service.environment.items())


def paired(words: Sequence[str]) -> list[str]:
    """Join each ``--flag`` with its value, so that a line of the command says one thing."""
    lines: list[str] = []
    for word in words:
        if word.startswith("--") or not lines:
            lines.append(shlex.quote(word))
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return lines


def _source(mount: Mount) -> str:
    """Return the host's side, quoted: nothing but the user's own variables is expanded."""
    if mount.holds is Holds.HUB:
        return SHELL_HUB
    if mount.holds is Holds.COMPILED:
        return f"{SHELL_CACHE}/{shlex.quote(mount.source)}"
    if mount.holds is Holds.TEMPLATE:
        return f'"$PWD"/{mount.source}'
    return shlex.quote(mount.source)
