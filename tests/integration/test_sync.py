"""`sync` to a real peer: an sshd with a key of its own, and an engine of its own behind it."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from builder import process
from builder.build import build
from builder.engine.client import Engine, RunSpec
from builder.workspace import Workspace
from tests.integration.foreign import OLDER, unpacked
from tests.integration.served import free_port
from tests.integration.test_build import daemon, ended, make_workspace, sparkyard
from tests.integration.test_push_direct import named_for, registry

pytestmark = [pytest.mark.engine,
              pytest.mark.skipif(os.geteuid() != 0, reason="a second engine needs root")]
PACKAGES = ("openssh-client", "openssh-server", "libwrap0", "libnsl2", "libtirpc3",
            "libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0", "libkeyutils1",
            "libcom-err2", "libssl3", "libsystemd0", "libgcrypt20", "libgpg-error0", "liblz4-1",
            "libzstd1", "libcap2", "libedit2", "libbsd0", "libmd0")
HOST = "spark2"  # only this test's ssh knows the name


@dataclass(frozen=True)
class Peer:
    """Another machine, as far as one machine can have one."""

    engine: Engine
    host: str  # of its engine
    path: str  # the PATH on which ``ssh`` reaches it
    folder: Path

    def served(self) -> set[str]:
        """Return the blobs that the registry gave out, by its own log."""
        return {line.split("blobs/sha256:")[1][:64]
                for line in (self.folder / "log").read_text().splitlines()
                if '"GET /v2/' in line and "blobs/sha256:" in line}


@contextmanager
def ssh_server(folder: Path, tools: Path, docker: str) -> Iterator[str]:
    """Run sshd for root with one key; its sessions find the engine at ``docker``.

    It is root in a mount namespace of its own: sshd insists on a user of its own in /etc/passwd.
    Yields the PATH with an ssh that reaches it as ``spark2``.
    """
    library = tools / f"usr/lib/{platform.machine()}-linux-gnu"
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{library}:{tools}/lib/{library.name}"}
    for key in ("host", "user"):
        subprocess.run([tools / "usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                        folder / key], check=True, env=environment)
    port = free_port()
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/user.pub\nPasswordAuthentication no\nUsePAM no\n"
        f"PidFile none\nPermitRootLogin yes\n"
        f"SetEnv DOCKER_HOST={docker} PATH={os.environ['PATH']}\n")
    (folder / "passwd").write_text(
        f"root:x:0:0:root:{folder}:/bin/sh\nsshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n")
    (folder / "known").write_text(
        f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "ssh_config").write_text(
        f"Host {HOST}\n HostName 127.0.0.1\n Port {port}\n User root\n IdentityFile {folder}/user\n"
        f" IdentitiesOnly yes\n UserKnownHostsFile {folder}/known\n"
        f" GlobalKnownHostsFile /dev/null\n")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(
        f"#!/bin/sh\nLD_LIBRARY_PATH={environment['LD_LIBRARY_PATH']} "
        f"exec {tools}/usr/bin/ssh -F {folder}/ssh_config \"$@\"\n")
    (programs / "ssh").chmod(0o755)
    inside = (f"mount --bind {folder}/passwd /etc/passwd && mount -t tmpfs tmpfs /run "
              f"&& mkdir -m 755 /run/sshd && exec {tools}/usr/sbin/sshd -D -e "
              f"-f {folder}/sshd_config")
    with (folder / "sshd.log").open("wb") as log, process.stream(
            ["unshare", "--mount", "sh", "-c", inside], env=environment, stderr=log) as child:
        for _ in range(6000):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert child.poll() is None, (folder / "sshd.log").read_text()
            time.sleep(0.1)
        yield f"{programs}:{os.environ['PATH']}"


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    folder = tmp_path_factory.mktemp("peer")
    with daemon(folder / "engine") as (_, docker):
        tools = unpacked(OLDER, PACKAGES, folder / "cache", folder / "tools")
        with ssh_server(folder, tools, docker) as path:
            yield Peer(Engine.connect(host=docker), docker, path, folder)


def test_only_what_a_peer_lacks_goes_over(peer: Peer, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "one", "1.7")
    newer = make_workspace(tmp_path / "two", "1.8")  # with the same large wheel
    with registry(peer.folder) as host:
        first = synced(peer, workspace, host)
        assert first["pulled"] == first["size"]
        assert runs(peer, first["reference"]) == "from the wheel 1.7"
        again = synced(peer, workspace, host)
        assert (again["pulled"], again["image"]) == (0, first["image"])
        before = peer.served()
        second = synced(peer, newer, host)
        assert runs(peer, second["reference"]) == "from the wheel 1.8"
        assert 0 < second["pulled"] < second["size"] / 2
        new = {f"sha256:{blob}" for blob in peer.served() - before} - {second["image"]}
        assert new == set(second["pulled_layers"]), "the registry's log says the same"
        names = peer.engine.docker.run("image", "ls", doing="listing the images").stdout
        assert {line.partition("/")[0] for line in names.splitlines()[1:]} == {host}


def test_a_peer_that_is_not_there_is_one_clear_error(peer: Peer, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "w", "1.7", weights=b"w")
    (peer.folder / "known").rename(peer.folder / "unknown")
    try:
        with registry(peer.folder) as host:
            errors = ended(sparkyard(workspace, "sync", "probe", "--to", HOST, PATH=peer.path,
                                     SPARKYARD_REGISTRY=f"{host}/sparkyard"), 4)
    finally:
        (peer.folder / "unknown").rename(peer.folder / "known")
    assert "ssh cannot open a tunnel" in errors
    assert "Host key verification failed" in errors
    assert "ssh-copy-id spark2" in errors


@contextmanager
def named(workspace: Workspace, host: str) -> Iterator[str]:
    done = build(workspace, workspace.cells[0], Engine.connect())
    with named_for(host, done, workspace) as tag:
        yield tag


def synced(peer: Peer, workspace: Workspace, host: str) -> dict[str, Any]:
    with named(workspace, host):
        child = sparkyard(workspace, "sync", "probe", "--to", HOST, "--json", PATH=peer.path,
                          SPARKYARD_REGISTRY=f"{host}/sparkyard")
        with child:
            said, errors = child.communicate(timeout=600)
    assert child.returncode == 0, errors
    (one,) = json.loads(said)
    return dict(one)


def runs(peer: Peer, image: str) -> str:
    """Import the image's module with the peer's engine, which has no network of its own."""
    done = peer.engine.run_once(RunSpec(
        image, ("python", "-c", "import vllm; print(vllm.WORD)"), network="none"))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
