"""Foreign tools for a test, each of a pinned version and from a package registry.

Nothing is installed on the machine: Python packages go into a folder, Debian packages are unpacked.
sparkrun needs a newer Python than this project: it runs in a container of Debian 13.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from builder.debian.archives import mirror
from builder.debian.fetch import fetch_debs
from builder.debian.resolve import resolve_debs
from builder.debian.rootfs import install, root_folder
from builder.debian.rootfs_tar import left_out, write_rootfs

SUITE = "trixie"
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
PINS = Path(__file__).parent / "foreign_tools"
OLDER = "bookworm"  # what is linked dynamically runs with the C library of Debian 12
COMPOSE = "usr/libexec/docker/cli-plugins/docker-compose"
SKOPEO = ("skopeo", "libgpgme11", "libassuan0", "libgpg-error0", "libdevmapper1.02.1",
          "libselinux1", "libudev1", "libpcre2-8-0")
EPOCH = 1_700_000_000


def run(command: Sequence[str | Path], folder: Path, **environment: str
        ) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True,
                          timeout=300, env={**os.environ, **environment})


def packages(pins: str, folder: Path, *options: str) -> Path:
    """Unpack the Python packages of a list into a folder, and return it."""
    done = run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary",
                ":all:", *options, "--target", folder, "-r", PINS / pins], folder.parent)
    assert done.returncode == 0, done.stderr
    return folder


def unpacked(suite: str, packages: Sequence[str], cache: Path, folder: Path) -> Path:
    """Unpack these packages of Debian, without what they depend on, and return the folder."""
    debs = resolve_debs(suite, ARCH, packages, where=__file__)
    chosen = [deb for deb in debs if deb.name in packages]
    for deb in fetch_debs(chosen, [mirror(suite)], cache).paths:
        subprocess.run(["dpkg-deb", "-x", deb, folder], check=True)
    return folder


def compose(cache: Path, folder: Path) -> Path:
    """Return Debian's docker-compose, unpacked."""
    return unpacked(SUITE, ["docker-compose"], cache, folder) / COMPOSE


def registry_tools(cache: Path, folder: Path) -> dict[str, str]:
    """Unpack cosign, oras and skopeo; return the environment in which they are found."""
    unpacked(SUITE, ["cosign", "oras"], cache, folder)
    unpacked(OLDER, SKOPEO, cache, folder)
    libraries = [str(path) for path in (folder / "usr/lib", folder / "lib")]
    triplet = f"{platform.machine()}-linux-gnu"
    return {"PATH": f"{folder / 'usr/bin'}{os.pathsep}{os.environ['PATH']}",
            "LD_LIBRARY_PATH": os.pathsep.join(f"{path}/{triplet}" for path in libraries)}


@contextmanager
def python_image(cache: Path) -> Iterator[str]:
    """Return an image of Debian 13 with its Python 3.13, for the length of the block."""
    debs = resolve_debs(SUITE, ARCH, ["usr-is-merged", "ca-certificates", "python3"],
                        where=__file__)
    name = f"sparkyard-test-python:{os.getpid()}"
    with tempfile.TemporaryDirectory(dir=cache) as folder, root_folder(cache, ARCH) as root:
        install(root, fetch_debs(debs, [mirror(SUITE)], cache).paths, ARCH, EPOCH)
        tar = write_rootfs(root, Path(folder, "rootfs.tar"), EPOCH,
                           lambda path: left_out(path, (), ()))
        subprocess.run(["docker", "import", tar.path, name], check=True, capture_output=True)
    try:
        yield name
    finally:
        subprocess.run(["docker", "image", "rm", name], check=True, capture_output=True)
