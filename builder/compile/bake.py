"""The build as one bake definition: the toolchain on the locked base, the compile, the result.

Three stages of ``wheels/Dockerfile``. The first is layers and Debian packages and stays in the
engine's cache; the second runs without a network; of the third nothing but ``/out`` leaves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.compile import shared_cache
from builder.limits import CONFIG_BYTES, read_file
from builder.store.content_store import Store, StoredLayer

DOCKERFILE = Path("wheels/Dockerfile")
TARGET = "compile"
CONTEXT = "sparkyard-toolchain"  # BuildKit keeps one copy of a context for each such name


def dockerfile(root: Path, base: str, layers: Sequence[StoredLayer], *, shared: bool = False
               ) -> str:
    """Fill the marked places of the template: the base, a line a layer, the network.

    Only a compile with a ``shared`` cache has a network.
    """
    template = read_file(root / DOCKERFILE, CONFIG_BYTES, "Dockerfile").decode("utf-8", "replace")
    adds = "\n".join(f"ADD --link {layer.digest}.tar /" for layer in layers)
    network = "default" if shared else "none"
    return template.replace("@base@", base).replace("@layers@", adds).replace("@network@", network)


def instructions(root: Path) -> str:
    """Return the template without its comments: what of it decides on the bytes of a compile."""
    lines = read_file(root / DOCKERFILE, CONFIG_BYTES, "Dockerfile").decode("utf-8", "replace")
    return "\n".join(line for line in lines.splitlines() if not line.lstrip().startswith("#"))


def definition(text: str, store: Store, order: Path, result: Path, platform: str,
               attempt: str, *, shared: bool = False) -> Mapping[str, Any]:
    """Return the bake definition; ``order`` goes in as a folder, ``result`` receives ``/out``.

    ``attempt`` is new for each run: what a compile did is never taken from BuildKit's cache, which
    would also hand out failures. What was compiled before is in the compiler's own cache.
    """
    return {"target": {TARGET: {
        "context": str(_context(store)), "contexts": {"order": str(order)},
        "dockerfile-inline": text, "target": "result", "platforms": [platform],
        "args": {"ATTEMPT": attempt}, "output": [f"type=local,dest={result}"],
        "attest": ["type=provenance,disabled=true"],
        **({"secret": [f"id={shared_cache.SECRET},env={shared_cache.VARIABLE}"]} if shared else {}),
    }}}


def write_order(folder: Path, order: Mapping[str, Any]) -> None:
    """Write what the container is to do, beside its archives and scripts."""
    (folder / "order.json").write_text(json.dumps(order, indent=1, sort_keys=True), "utf-8")


def _context(store: Store) -> Path:
    path = store.root / "contexts" / CONTEXT
    path.parent.mkdir(exist_ok=True)
    if not path.is_symlink():
        path.symlink_to(Path("..", store.layers.name))
    return path
