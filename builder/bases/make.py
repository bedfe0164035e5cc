"""The slim base: exact Debian packages into an image of our own making, for ``docker load``.

The image's configuration is written here, not by BuildKit, so its digest (the image id) is the
same with every engine and can be compared with the lock without asking one.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from builder import console
from builder import labels as label
from builder.bases.state import SLIM_RECIPE, SlimRecipe
from builder.debian.fetch import Fetched, Source, fetch_debs, named
from builder.debian.resolve import resolve_debs
from builder.debian.rootfs import install, root_folder
from builder.debian.rootfs_tar import left_out, write_rootfs
from builder.engine.client import Engine
from builder.errors import LockError, command
from builder.locking.base_lock import SNAPSHOT_FORMAT, Key, LockedBase, LockedDeb
from builder.matrix.models import Base
from builder.removal import remove_file
from builder.tarball import MTIME, Tar

PLACEHOLDER = "sha256:" + 64 * "0"  # until the image is made, and the digest is known
DAY_S = 86_400


@dataclass(frozen=True)
class BaseImage:
    """An image as bytes: its configuration and its one layer."""

    config: bytes
    rootfs: Tar

    @property
    def id(self) -> str:
        """Return the digest of the configuration."""
        return "sha256:" + hashlib.sha256(self.config).hexdigest()

    @property
    def diff_ids(self) -> tuple[str, ...]:
        """Return the digests of the uncompressed layers."""
        return (f"sha256:{self.rootfs.digest}",)


def resolve_slim(recipe: SlimRecipe, base: Base, key: Key) -> LockedBase:
    """Return the packages that the recipe means today; image and digest are still placeholders."""
    name, platform = key
    debs = resolve_debs(recipe.suite, platform.removeprefix("linux/"), recipe.packages,
                        where=str(SLIM_RECIPE))
    midnight = int(time.time()) // DAY_S * DAY_S
    return LockedBase.model_validate({
        "name": name, "platform": platform, "recipe": recipe.digest, "image_id": PLACEHOLDER,
        "digest": PLACEHOLDER, "diff_ids": (),
        "python": upstream_version(debs, f"python{base.python}", str(SLIM_RECIPE)),
        "glibc": upstream_version(debs, "libc6", str(SLIM_RECIPE)), "epoch": midnight,
        # The day's end: a service takes a few snapshots a day, and all who lock on one day agree.
        "snapshot": time.strftime(SNAPSHOT_FORMAT, time.gmtime(midnight + DAY_S - 1)),
        "packages": debs})


@contextmanager
def slim_image(wanted: LockedBase, recipe: SlimRecipe, cache: Path, sources: Sequence[Source]
               ) -> Iterator[BaseImage]:
    """Make the image of exactly the packages in ``wanted``; its bytes last for the block.

    Raises GoneError where a package is in no source any more, UsageError where this is not root.
    """
    started = time.monotonic()
    fetched = fetch_debs(wanted.packages, sources, cache)
    debs = fetched.paths
    if line := other_sources(wanted, fetched):
        console.warn(line)
    console.info(f"base {wanted.name} {wanted.platform}: installing {len(debs)} packages")
    with root_folder(cache, wanted.arch) as root:
        install(root, debs, wanted.arch, wanted.epoch)
        with tempfile.TemporaryDirectory(prefix="image-", dir=cache / "rootfs") as folder:
            rootfs = write_rootfs(root, Path(folder, "rootfs.tar"), wanted.epoch,
                                  lambda path: left_out(path, recipe.leave_out, recipe.keep))
            console.info(f"base {wanted.name} {wanted.platform}: {console.size(rootfs.size)} in "
                         f"{console.seconds(time.monotonic() - started)}")
            yield make_image(rootfs, wanted.arch, wanted.epoch, recipe.env, base_labels(wanted))


def other_sources(wanted: LockedBase, fetched: Fetched) -> str:
    """Say which packages did not come from the first source, why, and what to do about it."""
    if len(fetched.answers) < 2:  # one source gave all
        return ""
    first = fetched.answers[0]
    why = (f"no longer has {named(first.gone)}" if first.gone
           else f"could not be used ({first.trouble.what if first.trouble else ''})")
    came = ", ".join(f"{count} from {title}" for title, count in fetched.counts.items()
                     if title != first.title)
    return (f"base {wanted.name} {wanted.platform}: {first.title} {why}. {came}, each with the "
            "locked sha256: the base is the locked one. To lock today's packages: "
            f"{command('base', wanted.name, '--upgrade', '--platform', wanted.platform)}")


def make_image(rootfs: Tar, arch: str, epoch: int, env: Mapping[str, str],
               labels: Mapping[str, str]) -> BaseImage:
    """Return the image of ``rootfs``; ``labels`` get their prefix here."""
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = {
        "architecture": arch,
        "config": {
            "Cmd": ["/bin/bash"],
            "Env": [f"{key}={value}" for key, value in env.items()],
            "Labels": {label.PREFIX + key: value for key, value in sorted(labels.items())},
        },
        "created": created,
        "history": [{"created": created, "created_by": "sparkyard base"}],
        "os": "linux",
        "rootfs": {"diff_ids": [f"sha256:{rootfs.digest}"], "type": "layers"},
    }
    return BaseImage(json.dumps(config, sort_keys=True, separators=(",", ":")).encode(), rootfs)


def base_labels(base: LockedBase) -> dict[str, str]:
    """Return the labels of a base; ``unlocked`` only where it is not the committed one."""
    labels = {"base": base.name, "recipe": base.recipe, "python": base.python, "glibc": base.glibc}
    return labels | ({"unlocked": base.unlocked} if base.unlocked else {})


def load_image(engine: Engine, image: BaseImage, reference: str) -> None:
    """Load an image of ours into the engine, named ``reference``."""
    archive = image.rootfs.path.with_name("image.tar")
    try:
        write_archive(image, reference, archive)
        engine.load(archive)
    finally:
        remove_file(archive, archive.parent)


def write_archive(image: BaseImage, reference: str, target: Path) -> None:
    """Write ``image`` as an archive that ``docker load`` takes, named ``reference``."""
    layer = f"{image.rootfs.digest}/layer.tar"
    config = f"{image.id.removeprefix('sha256:')}.json"
    manifest = [{"Config": config, "RepoTags": [reference], "Layers": [layer]}]
    with tarfile.open(target, "w") as archive:
        texts = {config: image.config, "manifest.json": json.dumps(manifest).encode()}
        for name, data in texts.items():
            archive.addfile(_info(name, len(data)), io.BytesIO(data))
        with image.rootfs.path.open("rb") as stream:
            archive.addfile(_info(layer, image.rootfs.size), stream)


def upstream_version(debs: Iterable[LockedDeb], package: str, recipe: str) -> str:
    """Return a package's upstream version: ``2.36`` of ``2.36-9+deb12u14``."""
    version = next((deb.version for deb in debs if deb.name == package), "")
    upstream = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)
    if upstream is None:
        raise LockError(f"the base has no package {package}", where=recipe,
                        next_step="add it to packages there; bases.*.python in the matrix says "
                        "which Python a base has")
    return upstream[1]


def _info(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, MTIME
    return info
