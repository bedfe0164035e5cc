"""Make a base: exact packages into an image (slim), or NVIDIA's image with ours on top (cuda)."""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from builder import console
from builder.bases.image import BaseImage, make_image, write_archive
from builder.bases.recipe import SlimRecipe
from builder.debian.fetch import fetch_debs
from builder.debian.resolve import resolve_debs
from builder.debian.rootfs import install, root_folder
from builder.debian.rootfs_tar import left_out, write_rootfs
from builder.engine.client import Engine, RunSpec
from builder.errors import LockError, NetworkError
from builder.locking.base_lock import LockedBase, LockedDeb
from builder.matrix.models import Base

CUDA_DOCKERFILE = "images/base/cuda.Dockerfile"
PLACEHOLDER = "sha256:" + 64 * "0"  # until the image is made, and the digest is known
LIST_PACKAGES = r"${Package}\t${Version}\t${Architecture}\n"


def resolve_slim(recipe: SlimRecipe, name: str, platform: str) -> LockedBase:
    """Return the packages that the recipe means today; image and digest are still placeholders."""
    debs = resolve_debs(recipe.suite, platform.removeprefix("linux/"), recipe.packages)
    midnight = int(time.time()) // 86400 * 86400
    return LockedBase.model_validate({
        "name": name, "platform": platform, "recipe": recipe.digest, "image_id": PLACEHOLDER,
        "digest": PLACEHOLDER, "diff_ids": (), "python": _upstream(debs, "python3.11"),
        "glibc": _upstream(debs, "libc6"), "epoch": midnight, "packages": debs})


@contextmanager
def slim_image(wanted: LockedBase, recipe: SlimRecipe, cache: Path) -> Iterator[BaseImage]:
    """Make the image of exactly the packages in ``wanted``; its bytes last for the block.

    Raises GoneError where a package is on no mirror any more, UsageError where this is not root.
    """
    started = time.monotonic()
    debs = fetch_debs(wanted.packages, recipe.suite, cache)
    console.info(f"base {wanted.name} {wanted.platform}: installing {len(debs)} packages")
    with root_folder(cache, wanted.arch) as root:
        install(root, debs, wanted.arch, wanted.epoch)
        with tempfile.TemporaryDirectory(prefix="image-", dir=cache / "rootfs") as folder:
            rootfs = write_rootfs(root, Path(folder, "rootfs.tar"), wanted.epoch,
                                  lambda path: left_out(path, recipe.leave_out, recipe.keep))
            console.info(f"base {wanted.name} {wanted.platform}: {console.size(rootfs.size)} in "
                         f"{console.seconds(time.monotonic() - started)}")
            yield make_image(rootfs, wanted.arch, wanted.epoch, recipe.env, labels(wanted))


def labels(base: LockedBase) -> dict[str, str]:
    """Return what is written on a base; ``unlocked`` only where it is not the committed one."""
    said = {"base": base.name, "recipe": base.recipe, "python": base.python, "glibc": base.glibc}
    return said | ({"unlocked": base.unlocked} if base.unlocked else {})


def load_image(engine: Engine, image: BaseImage, reference: str) -> None:
    """Hand an image of ours to the engine."""
    archive = image.rootfs.path.with_name("image.tar")
    try:
        write_archive(image, reference, archive)
        engine.load(archive)
    finally:
        archive.unlink(missing_ok=True)


def make_cuda(engine: Engine, root: Path, base: Base, name: str, platform: str,
              registry: str) -> LockedBase:
    """Build the cuda base on NVIDIA's image, push it, and return what came out.

    Raises NetworkError, plainly, where NVIDIA's registry is out of reach.
    """
    reference = f"{registry}/base-{name}:{platform.removeprefix('linux/')}-new"
    target: dict[str, Any] = {
        "context": str(root / "images/base"), "dockerfile": "cuda.Dockerfile",
        "platforms": [platform], "tags": [reference], "args": {"SOURCE": base.source},
        "attest": ["type=provenance,disabled=true"], "network": "host"}
    try:
        engine.bake({"target": {name: target}}, (name,), load=True)
    except NetworkError as error:
        raise NetworkError(
            f"base {name} was not made: {base.source} cannot be pulled here\n{error.what}",
            where=f"bases.{name}.source",
            next_step="make it where NVIDIA's registry answers, or build the "
                      "image's cell on the base slim") from error
    return _cuda_facts(engine, root, base, name, platform, reference)


def _cuda_facts(engine: Engine, root: Path, base: Base, name: str, platform: str,
                reference: str) -> LockedBase:
    facts = engine.inspect(reference)
    listed = engine.run_once(RunSpec(reference, ("dpkg-query", "-W", "-f", LIST_PACKAGES),
                                     platform=platform))
    python = engine.run_once(RunSpec(reference, ("python3", "-V"), platform=platform))
    if facts is None or listed.returncode or python.returncode:
        raise LockError(f"base {name} was built but does not run", where=CUDA_DOCKERFILE)
    debs = [LockedDeb(name=package, version=version, arch=arch, sha256="", size=0, path="")
            for package, version, arch in map(str.split, listed.stdout.splitlines())]
    return LockedBase.model_validate({
        "name": name, "platform": platform, "recipe": cuda_recipe(root, base),
        "image_id": facts.id, "digest": engine.push(reference), "diff_ids": facts.diff_ids,
        "python": python.stdout.split()[-1], "glibc": _upstream(debs, "libc6"), "epoch": 0,
        "source": base.source, "packages": debs})


def cuda_recipe(root: Path, base: Base) -> str:
    """Return the digest of what the cuda base is asked for: its source and its Dockerfile."""
    text = base.source + "\n" + (root / CUDA_DOCKERFILE).read_text(encoding="utf-8")
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _upstream(debs: tuple[LockedDeb, ...] | list[LockedDeb], package: str) -> str:
    """Return a package's upstream version: ``2.36`` of ``2.36-9+deb12u14``."""
    version = next((deb.version for deb in debs if deb.name == package), "")
    found = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)
    if found is None:
        raise LockError(f"the base holds no {package}", where="images/base",
                        next_step="name it among the base's packages")
    return found[1]
