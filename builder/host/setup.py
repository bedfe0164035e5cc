"""Bring up what builds need on a bare Debian or Ubuntu machine: engine, buildx, arm64, registry.

Detect, plan (``builder.host.plan``), perform. Steps are planned only for what does not work yet, so
a working engine is never changed, and an interrupted run is completed by the next one.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from builder import console, process
from builder.debian.apt_sources import read_sources
from builder.debian.resolve import KEYRING
from builder.engine.docker import DockerClient
from builder.errors import EngineError, command
from builder.files import write_text
from builder.host.plan import (
    BINFMT,
    Command,
    Emulate,
    Host,
    Service,
    Step,
    Unpack,
    WriteFile,
    emulation_rule,
    registry_config,
    services_folder,
)
from builder.limits import DEB_S
from builder.removal import remove_tree

READY_WITHIN_S = 90.0
ANSWER_S, HEAD_BYTES = 5.0, 16_384  # of a server on this machine
DOCKER = DockerClient(("docker",))
LOOPBACK = ("127.", "localhost:")
ARM64_HEADER = "7f454c460201010000000000000000000200b7"
__all__ = ["detect", "perform", "registry_config", "summary"]


def detect(registry: str, cache: Path) -> Host:
    """Find what this machine has; ``registry`` is an address with its name space.

    Raises EngineError where this user has no permission to use the engine that runs.
    """
    address = registry.split("/", 1)[0]
    local = address if address.startswith(LOOPBACK) else ""
    return Host(
        system=_system(Path("/etc/os-release")), machine=platform.machine(),
        systemd=Path("/run/systemd/system").is_dir(),
        engine=_engine_version(), engine_installed=_program("dockerd") is not None,
        client_installed=_program("docker") is not None, buildx=_buildx_version(),
        arm64=_arm64(Path(BINFMT)),
        emulator=_program("qemu-aarch64-static"),
        registry=bool(local) and registry_answers(local), registry_address=local,
        registry_program=_registry_program(cache),
        rootfs_tools=_program("openssl") is not None and Path(KEYRING).is_file(),
        sources=read_sources(),
    )


def perform(steps: Sequence[Step], host: Host) -> None:
    """Do the steps in order; raises EngineError, with the log, where a service does not start."""
    for number, step in enumerate(steps, 1):
        console.info(f"[{number}/{len(steps)}] {step.title}")
        match step.action:
            case Command(words):
                _root(words)
            case WriteFile(path, text):
                _write(path, text)
            case Unpack(package, folder):
                _unpack(package, folder)
            case Service():
                _start(step.action, host)
            case Emulate():
                _emulate()


def summary(host: Host) -> list[tuple[str, str]]:
    """Return the rows of the closing table: each part and its version."""
    registry = host.registry_address or "on another machine"
    return [
        ("engine", host.engine or "missing"),
        ("buildx", host.buildx or "missing"),
        ("arm64", host.arm64 or "missing"),
        ("registry", registry if host.registry or not host.registry_address else "missing"),
        ("tools for bases", "installed" if host.rootfs_tools else "missing"),
    ]


def registry_answers(address: str) -> bool:
    """Say whether a container registry answers on a loopback address (200, or 401 with a login).

    Raises EngineError where something else listens there.
    """
    head = _answer_head(address)
    status = re.match(r"HTTP/1\.\d (\d{3})", head)
    if status is None:
        return False
    if "docker-distribution-api-version:" in head.lower() or status[1] in ("200", "401"):
        return True
    raise EngineError(f"the server at {address} is not a container registry", where=address,
                      next_step="stop it, or choose another address: SPARKYARD_REGISTRY")


def _answer_head(address: str) -> str:
    """Return what a server says to ``GET /v2/`` within limits, empty where nobody answers."""
    name, _, port = address.partition(":")
    request, end = f"GET /v2/ HTTP/1.0\r\nHost: {address}\r\n\r\n", time.monotonic() + ANSWER_S
    head = b""
    try:
        with socket.create_connection((name, int(port or 80)), timeout=ANSWER_S) as link:
            link.sendall(request.encode())
            while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES:
                link.settimeout(max(0.01, end - time.monotonic()))
                piece = link.recv(4096)
                head += piece
                if not piece:
                    break
    except OSError:  # nobody, or too slow: what came until then counts
        pass
    return head.decode("latin-1")


def _system(os_release: Path) -> str:
    """Return ``debian bookworm``, ``ubuntu noble`` …; empty where nothing says so."""
    if not os_release.is_file():
        return ""
    lines = (line.partition("=") for line in os_release.read_text("utf-8").splitlines())
    fields = {key: value.strip('"') for key, _, value in lines}
    return f"{fields.get('ID', '')} {fields.get('VERSION_CODENAME', '')}".strip()


def _program(name: str) -> str | None:
    """Find a program, also where only root's PATH leads."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _engine_version() -> str | None:
    if _program("docker") is None:
        return None
    answer = DOCKER.run("version", "--format", "{{.Server.Version}}", check=False,
                        doing="asking the Docker engine for its version")
    if "permission denied" in answer.stderr.lower():
        raise EngineError("this user has no permission to use the Docker engine",
                          where="/var/run/docker.sock",
                          next_step="add the user to the group: `sudo usermod -aG docker $USER`, "
                          "then log in again")
    return answer.stdout.strip() or None if answer.returncode == 0 else None


def _buildx_version() -> str | None:
    if _program("docker") is None:
        return None
    answer = DOCKER.run("buildx", "version", check=False, doing="asking buildx for its version")
    words = answer.stdout.split()
    return words[1] if answer.returncode == 0 and len(words) > 1 else None


def _arm64(binfmt: Path) -> str | None:
    """Say how arm64 programs run here: natively, or through a rule that reaches containers."""
    if platform.machine() in ("aarch64", "arm64"):
        return "native"
    for rule in binfmt.glob("*"):
        if rule.name in ("register", "status"):
            continue
        text = rule.read_text(encoding="utf-8", errors="replace")
        flags = next((line for line in text.splitlines() if line.startswith("flags:")), "")
        if ARM64_HEADER in text and "enabled" in text and "F" in flags.partition(":")[2]:
            return "emulated"
    return None


def _registry_program(cache: Path) -> str | None:
    own = services_folder(cache) / "registry-program/usr/bin/docker-registry"
    return _program("docker-registry") or (str(own) if own.is_file() else None)


def _root(words: Sequence[str], stdin: bytes | None = None) -> None:
    """Run a command as root: as it is for root, with sudo for others."""
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    process.run([*prefix, "env", "DEBIAN_FRONTEND=noninteractive", *words], stdin=stdin,
                terminal=True)


def _write(path: str, text: str) -> None:
    """Write a file: the user's own under their cache, root's elsewhere."""
    if path.startswith("/etc/"):
        _root(["install", "-m", "644", "/dev/stdin", path], text.encode())
        return
    write_text(Path(path), text)


def _unpack(package: str, folder: Path) -> None:
    """Download a package in the user's name and unpack it; a half-unpacked folder is not kept."""
    temporary = folder.with_name(folder.name + ".new")
    remove_tree(temporary, temporary.parent)
    temporary.mkdir(parents=True)
    process.run(["apt-get", "-q", "download", package], cwd=temporary, timeout=DEB_S)
    for file in temporary.glob("*.deb"):
        process.run(["dpkg-deb", "-x", file, temporary], timeout=DEB_S)
    remove_tree(folder, folder.parent)
    temporary.replace(folder)


def _start(service: Service, host: Host) -> None:
    """Start a service unless it answers by now; wait until it does."""
    if not _ready(service.ready, host):
        service.log.parent.mkdir(parents=True, exist_ok=True)
        if service.words[0] == "systemctl":
            _root(service.words)
        else:
            as_root = service.ready == "engine" and os.geteuid() != 0
            process.detach([*(["sudo"] if as_root else []), *service.words], service.log)
    end = time.monotonic() + READY_WITHIN_S
    while not _ready(service.ready, host):
        if time.monotonic() > end:
            raise EngineError(f"{service.words[0]} was started, but did not answer within "
                              f"{READY_WITHIN_S:.0f} s", where=str(service.log),
                              next_step=f"read this log, then run {command('engine')} again")
        time.sleep(0.3)


def _ready(what: str, host: Host) -> bool:
    if what == "engine":
        return _engine_version() is not None
    return registry_answers(host.registry_address)


def _emulate() -> None:
    """Register qemu with the kernel, beside other rules: the newest one is asked first."""
    if not Path(BINFMT, "register").exists():
        _root(["mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT])
    emulator = _program("qemu-aarch64-static")
    if _arm64(Path(BINFMT)) is None and emulator is not None:
        rule = emulation_rule(str(Path(emulator).resolve()))
        _root(["tee", f"{BINFMT}/register"], rule.encode())
    if _arm64(Path(BINFMT)) is None:
        raise EngineError("the kernel cannot run arm64 programs", where=BINFMT,
                          next_step="install qemu-user-static, or build on an arm64 machine")
