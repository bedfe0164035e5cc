"""Show what changes from one image of a registry to another.

Versions of wheels and Debian packages, patches, the layers and bytes that a holder of the first
image pulls for the second, and the records of both.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from builder import console
from builder.commands.verify import named_image
from builder.promotion.cell import find_image
from builder.promotion.compare import Change, Difference, Side, compare, read_side
from builder.promotion.contents import read_remote
from builder.workspace import Workspace, open_workspace


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("diff", help="show what changes between two images",
                                   description=__doc__)
    for name in ("before", "after"):
        parser.add_argument(name, metavar=name.upper(),
                            help="a cell, or CELL:TAG, or CELL@sha256:…")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document on standard output")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Compare two images by what the registry has of them."""
    workspace = open_workspace(options.matrix, make_cache=False)
    found = compare(_side(workspace, options.before), _side(workspace, options.after))
    if options.json:
        console.document(document(found))
    else:
        show(found)
    return 0


def document(found: Difference) -> dict[str, Any]:
    """Return the difference as one JSON value; ``to_pull`` are compressed bytes."""
    return {"before": _as_json(found.before), "after": _as_json(found.after),
            "wheels": found.wheels, "debian": found.debs, "patches": found.patches,
            "layers": {"all": len(found.after.image.layers),
                       "new": [layer.digest for layer in found.missing]},
            "to_pull": found.to_pull}


def show(found: Difference) -> None:
    """Print the changes by kind, the bytes of the update, and both images' records."""
    for title, changed in (("wheels", found.wheels), ("Debian packages", found.debs),
                           ("patches", found.patches)):
        if changed:
            console.table(f"{title}: {len(changed)} changes", ("name", "before", "after"),
                          _rows(changed))
        else:
            console.out(f"{title}: no change")
    count = len(found.after.image.layers)
    console.out(f"an update pulls {console.size(found.to_pull)} in {len(found.missing)} of {count} "
                "layers")
    for name, side in (("before", found.before), ("after", found.after)):
        if not side.listed:
            console.warn(f"{name}: no list of contents is attached; only labelled versions are "
                         "compared")
        console.out(f"{name}: {side.image.manifest.digest}")
        for record in side.records or ("no record is attached",):
            console.out(f"  {record}")


def _rows(changed: Mapping[str, Change]) -> list[tuple[str, str, str]]:
    return [(name, before or "none", after or "none")
            for name, (before, after) in changed.items()]


def _as_json(side: Side) -> dict[str, Any]:
    return {"digest": side.image.manifest.digest, "records": list(side.records)}


def _side(workspace: Workspace, text: str) -> Side:
    tags, name = named_image(workspace, text)
    return read_side(tags.repository, read_remote(tags.repository, find_image(tags, name)))
