"""What a machine still needs before it can build images: detected facts in, frozen steps out.

Debian 12's own ``docker.io`` (20.10) has no buildx. Debian 13's packages need only libc 2.34 and
so install on Debian 12 too: they come from a source for ``trixie`` that is pinned below the
release's own, so that nothing else moves. Debian 13 and Ubuntu 24.04 have all of it themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from builder.debian.apt_sources import AptSource, archive_uri
from builder.errors import EngineError, UsageError

# ``<magic>:<mask>`` of 64-bit little-endian ARM ELF files: the binfmt_misc kernel documentation's
# form, as every qemu package registers it.
ARM64_MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
ARM64_MASK = (r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff"
              r"\xfe\xff\xff\xff")
BINFMT = "/proc/sys/fs/binfmt_misc"
SOURCE_FILE = "/etc/apt/sources.list.d/sparkyard-engine.sources"
PIN_FILE = "/etc/apt/preferences.d/sparkyard-engine"


@dataclass(frozen=True)
class Host:
    """What this machine has; versions are None for what does not work."""

    system: str  # "debian bookworm"
    machine: str  # "x86_64", "aarch64"
    systemd: bool
    engine: str | None  # version of the Docker engine that answers
    engine_installed: bool
    client_installed: bool
    buildx: str | None
    arm64: str | None  # "native", "emulated" or None
    emulator: str | None  # path of a static qemu for aarch64
    registry: bool  # something speaks the registry protocol at ``registry_address``
    registry_address: str  # "127.0.0.1:5000"; empty where the registry is somewhere else
    registry_program: str | None
    rootfs_tools: bool  # what making a base needs beside dpkg and apt
    sources: tuple[AptSource, ...] = ()


@dataclass(frozen=True)
class Command:
    """A program to run as root."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class WriteFile:
    """A small file of root's to write; a kernel file is written in place."""

    path: str
    text: str


@dataclass(frozen=True)
class Unpack:
    """A Debian package to download and unpack into ``folder``, without installing it."""

    package: str
    folder: Path


@dataclass(frozen=True)
class Service:
    """A program to start on its own, followed by ``ready``: "engine" or "registry"."""

    words: tuple[str, ...]
    log: Path
    ready: str


@dataclass(frozen=True)
class Emulate:
    """Register the installed static qemu for aarch64 with the kernel."""


Action = Command | WriteFile | Unpack | Service | Emulate


@dataclass(frozen=True)
class Step:
    """One change: its title for people, and the action."""

    title: str
    action: Action


@dataclass(frozen=True)
class Release:
    """Which packages of which suites make an engine on one release."""

    suites: tuple[str, ...]
    engine: tuple[str, ...]
    client: tuple[str, ...]
    buildx: str
    emulator: tuple[str, ...]
    tools: tuple[str, ...] = ("openssl", "debian-archive-keyring")
    registry: str = "docker-registry"


BOOKWORM = Release(("trixie", "bookworm-backports"), ("docker.io/trixie", "iptables"),
                   ("docker-cli/trixie",), "docker-buildx/trixie",
                   ("qemu-user-static/bookworm-backports", "mount"),
                   # Debian 12's is built with a Go that does not use the SHA instructions of x86
                   # processors: it takes in a push at half the speed (docs/push.md).
                   registry="docker-registry/trixie")
TRIXIE = Release((), ("docker.io", "iptables"), ("docker-cli",), "docker-buildx",
                 ("qemu-user-static", "mount"))
NOBLE = Release((), ("docker.io", "iptables"), (), "docker-buildx",
                ("qemu-user-static", "mount"))
RELEASES = {"debian bookworm": BOOKWORM, "debian trixie": TRIXIE, "ubuntu noble": NOBLE}


def plan(host: Host, cache: Path) -> tuple[Step, ...]:
    """Return the missing steps in order; none for what already works.

    Raises UsageError where packages are missing on a release that is not known here.
    """
    packages = _packages(host)
    fetch_registry = bool(host.registry_address and not host.registry
                          and not host.registry_program)
    steps: list[Step] = []
    registry = (RELEASES.get(host.system, TRIXIE).registry,) if fetch_registry else ()
    if packages or registry:
        steps += _install(host, packages, registry)
    if host.engine is None:
        steps.append(_start_engine(host, cache))
    if host.arm64 is None:
        steps.append(Step("let the kernel run arm64 programs through qemu", Emulate()))
    if host.registry_address and not host.registry:
        steps += _start_registry(host, cache, registry)
    return tuple(steps)


def registry_config(address: str, storage: Path) -> str:
    """Return the configuration of a plain file-system registry on the loopback interface."""
    config = {"version": 0.1, "storage": {"filesystem": {"rootdirectory": str(storage)},
                                          "delete": {"enabled": True}}, "http": {"addr": address}}
    return yaml.safe_dump(config, sort_keys=False)


def services_folder(cache: Path) -> Path:
    """Return where logs, the registry's program and its contents lie."""
    return cache / "services"


def emulation_rule(emulator: str) -> str:
    """Return the line that registers ``emulator``.

    Flag F opens it now, so that it works inside containers; P keeps a program's own name.
    """
    return f":sparkyard-aarch64:M::{ARM64_MAGIC}:{ARM64_MASK}:{emulator}:PF\n"


def _packages(host: Host) -> tuple[str, ...]:
    """Name what must be installed, with the suite where it is not the release's own."""
    release = RELEASES.get(host.system, TRIXIE)
    wanted: list[str] = []
    if host.engine is None and not host.engine_installed:
        wanted += release.engine
    if not host.client_installed:
        wanted += release.client
    if host.buildx is None:
        wanted.append(release.buildx)
    if host.arm64 is None and host.emulator is None:
        wanted += release.emulator
    if not host.rootfs_tools:
        wanted += release.tools
    if wanted and host.system not in RELEASES:
        raise UsageError(
            f"missing: {', '.join(wanted)}; there are no instructions for "
            f"{host.system or 'this system'}",
            where="/etc/os-release",
            next_step="install it with the system's own tools; supported: "
                      + ", ".join(sorted(RELEASES)))
    return tuple(wanted)


def _install(host: Host, packages: tuple[str, ...], unpacked: tuple[str, ...]) -> list[Step]:
    """Add the pinned source where a suite needs one, then install ``packages``."""
    release = RELEASES.get(host.system)
    steps = []
    if release and any(f"/{suite}" in package
                       for suite in release.suites for package in (*packages, *unpacked)):
        steps += [Step(f"add an apt source for {' and '.join(release.suites)}",
                       WriteFile(SOURCE_FILE, _source(host, release))),
                  Step("give it a lower priority than the release's own packages",
                       WriteFile(PIN_FILE, _pins(release)))]
    apt = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-q")
    steps.append(Step("update the package lists", Command((*apt, "update"))))
    if packages:
        steps.append(Step(f"install {', '.join(packages)}", Command(
            (*apt, "install", "-y", "--no-install-recommends", *packages))))
    return steps


def _source(host: Host, release: Release) -> str:
    codename = host.system.split()[-1]
    source = next((entry for entry in host.sources if codename in entry.suites), None)
    uri = archive_uri(host.sources, codename)
    if source is None or uri is None:
        raise EngineError(f"no apt source on this machine has the release {codename}",
                          where="/etc/apt",
                          next_step="restore the release's own apt sources in /etc/apt")
    keyring = f"Signed-By: {source.signed_by}\n" if source.signed_by else ""
    return (f"# Written by `sparkyard engine`: newer engine packages for {codename}.\n"
            f"Types: deb\nURIs: {uri}\nSuites: {' '.join(release.suites)}\nComponents: main\n"
            f"{keyring}")


def _pins(release: Release) -> str:
    return "\n".join(f"Package: *\nPin: release n={suite}\nPin-Priority: 50\n"
                     for suite in release.suites)


def _start_engine(host: Host, cache: Path) -> Step:
    log = services_folder(cache) / "dockerd.log"
    words = ("systemctl", "start", "docker") if host.systemd else ("dockerd",)
    return Step("start the Docker engine", Service(words, log, "engine"))


def _start_registry(host: Host, cache: Path, unpacked: tuple[str, ...]) -> list[Step]:
    """Run a registry of our own: the packaged service needs a password and listens everywhere."""
    folder = services_folder(cache)
    program = host.registry_program or str(folder / "registry-program/usr/bin/docker-registry")
    config = folder / "registry.yml"
    steps = [Step(f"write the configuration of a registry on {host.registry_address}", WriteFile(
        str(config), registry_config(host.registry_address, folder / "registry")))]
    steps += [Step("download the registry program", Unpack(package, folder / "registry-program"))
              for package in unpacked]
    steps.append(Step(f"start a registry on {host.registry_address}", Service(
        (program, "serve", str(config)), folder / "registry.log", "registry")))
    return steps
