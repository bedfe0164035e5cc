"""Tags: immutable ones that say what is inside, and ``-next`` candidates; never the moving one.

An image is pushed only when it is locked; a candidate only when this very image passed its smoke.
"""

from __future__ import annotations

from pathlib import Path

from builder.engine import Engine, ImageFacts
from builder.errors import VerdictError
from builder.image import LABEL
from builder.record import passed


def push_immutable(engine: Engine, image: ImageFacts) -> str:
    """Push the image's immutable tags and return the manifest digest; refuses unlocked images."""
    if image.labels.get(LABEL + "status") != "locked":
        raise VerdictError("the image stands on a base that no lock resolves, so it can never be "
                           "published", where=image.labels.get(LABEL + "cell", image.id),
                           next_step="lock the base (`nox -s base`) and build again")
    short = image.labels[LABEL + "inputs"].removeprefix("sha256:")[:12]
    tags = [tag for tag in image.repo_tags if tag.endswith(f"-{short}")]
    if not tags:
        raise VerdictError("the image has no immutable tag", where=image.id,
                           next_step="build it again")
    digests = [engine.push(tag) for tag in tags]
    return digests[0]


def push_next(engine: Engine, image: ImageFacts, name: str, records: Path) -> str:
    """Push ``<name>-next``; refuses an image that no record says passed its smoke."""
    if not passed(records, image.id):
        raise VerdictError("this image has not passed its smoke test", where=name,
                           next_step=f"run `sparkyard smoke {image.labels[LABEL + 'cell']}`")
    candidate = f"{name}-next"
    engine.tag(image.id, candidate)
    return engine.push(candidate)
