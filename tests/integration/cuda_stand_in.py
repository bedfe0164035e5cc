"""A stand-in for ``nvidia/cuda:…-devel``, for tests without NVIDIA's registry.

A plain Debian made with the project's own tools, and at ``/usr/local/cuda`` the CUDA toolkit of
NVIDIA's wheels. Like the image it stands for, it has no Python and no C compiler, it has apt with
sources, its loader knows the toolkit's libraries, and its entry point prints a banner.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder import process
from builder.bases.make import BaseImage, load_image, make_image
from builder.debian.apt_sources import debian_mirrors
from builder.debian.archives import mirror
from builder.debian.fetch import fetch_debs
from builder.debian.resolve import KEYRING, resolve_debs
from builder.debian.rootfs import install, root_folder
from builder.debian.rootfs_tar import left_out, write_rootfs
from builder.engine.client import Engine
from builder.fetch.wheels import fetch_lock
from builder.locking.lock import Lock, read_lock
from builder.store.content_store import Store
from builder.workspace import cache_folder

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "cuda-stand-in" / "toolkit-amd64.toml"
TOOLKIT = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-cccl",
           "nvidia-cuda-runtime")
EPOCH = 1_000_000_000  # fixed, so that the same packages give the same image on any day
ENTRY_POINT = """#!/bin/sh
echo "=========="
echo "== CUDA =="
echo "=========="
exec "$@"
"""
DOCS = ("usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*", "usr/share/info/*")


@dataclass(frozen=True)
class StandIn:
    """Which Debian it is, for which processor, and what is in it beside the essential packages."""

    suite: str
    arch: str
    packages: tuple[str, ...] = ()

    @property
    def platform(self) -> str:
        """Return the platform as Docker writes it."""
        return f"linux/{self.arch}"

    def toolkit(self) -> Lock:
        """Return the lock of the toolkit's wheels: CUDA 13.0 as ``locks/tf5.toml`` has it."""
        lock = read_lock(FIXTURE if self.arch == "amd64" else ROOT / "locks" / "tf5.toml")
        return lock.model_copy(update={"wheels": tuple(
            wheel for wheel in lock.wheels if wheel.name in TOOLKIT)})


def make_stand_in(engine: Engine, wanted: StandIn, reference: str) -> None:
    """Make the stand-in, push it to the local registry as ``reference``, and forget it here."""
    cache = cache_folder()
    names = ("usr-is-merged", "apt", "ca-certificates", *wanted.packages)
    debs = fetch_debs(resolve_debs(wanted.suite, wanted.arch, names, where="cuda_stand_in.py"),
                      [mirror(wanted.suite)], cache).paths
    toolkit = fetch_lock(wanted.toolkit(), Store(cache), {}).paths
    assert len(toolkit) == len(TOOLKIT)
    with root_folder(cache, wanted.arch) as root, tempfile.TemporaryDirectory(
            prefix="image-", dir=cache / "rootfs") as folder:
        install(root, debs, wanted.arch, EPOCH)
        _apt_sources(root, wanted.suite)
        _toolkit(root, list(toolkit.values()))
        _entry_point(root)
        tar = write_rootfs(root, Path(folder, "rootfs.tar"), EPOCH,
                           lambda path: left_out(path, DOCS, ()))
        plain = make_image(tar, wanted.arch, EPOCH, {"PATH": "/usr/local/cuda/bin:/usr/sbin:"
                                                     "/usr/bin:/sbin:/bin"}, {})
        config = json.loads(plain.config)
        config["config"]["Entrypoint"] = ["/opt/nvidia/nvidia_entrypoint.sh"]
        load_image(engine, BaseImage(json.dumps(config).encode(), tar), reference)
    engine.push(reference)
    engine.remove(reference)


def _apt_sources(root: Path, suite: str) -> None:
    """Write the machine's own mirror into the image, as NVIDIA's has Ubuntu's."""
    stanza = "Types: deb\nURIs: {}\nSuites: {}\nComponents: main\nSigned-By: " + KEYRING + "\n"
    main, security = debian_mirrors(suite)
    (root / "etc/apt/sources.list.d").mkdir(parents=True, exist_ok=True)
    (root / "etc/apt/sources.list.d/debian.sources").write_text(
        stanza.format(main, suite) + "\n" + stanza.format(security, f"{suite}-security"))


def _toolkit(root: Path, wheels: Sequence[Path]) -> None:
    """Unpack the wheels as NVIDIA's packages lie: bin, include, nvvm, lib64 and a link lib."""
    home = root / "usr/local/cuda"
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                place = member.filename.removeprefix("nvidia/cu13/")
                if place == member.filename or member.is_dir():
                    continue
                target = home / place.replace("lib/", "lib64/", 1 if place[:4] == "lib/" else 0)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(member))
                target.chmod(0o755 if "bin/" in place else 0o644)
    (home / "lib").symlink_to("lib64")
    (home / "lib64/libcudart.so").symlink_to("libcudart.so.13")
    (root / "etc/ld.so.conf.d/cuda.conf").write_text("/usr/local/cuda/lib64\n")
    process.run(["chroot", root, "/sbin/ldconfig"])


def _entry_point(root: Path) -> None:
    script = root / "opt/nvidia/nvidia_entrypoint.sh"
    script.parent.mkdir(parents=True)
    script.write_text(ENTRY_POINT)
    script.chmod(0o755)
