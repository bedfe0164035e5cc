"""Machines as found: a bare one and one where everything answers."""

from __future__ import annotations

from dataclasses import replace

from builder.debian.apt_sources import AptSource
from builder.host.plan import Host

BARE = Host(
    system="debian bookworm", machine="x86_64", systemd=False, engine=None,
    engine_installed=False, client_installed=False, buildx=None, arm64=None, emulator=None,
    registry=False, registry_address="127.0.0.1:5000", registry_program=None, rootfs_tools=False,
    sources=(AptSource("http://mirror.example/debian", ("bookworm",), "/k.gpg"),))
WORKING = replace(
    BARE, engine="26.1.5", engine_installed=True, client_installed=True, buildx="0.13.1",
    arm64="emulated", emulator="/usr/bin/qemu-aarch64-static", registry=True,
    registry_program="/usr/bin/docker-registry", rootfs_tools=True)
