"""Point a cell's moving tag back at the last good image before this one.

Nothing is built or pulled. The image's records are checked again before the tag moves, and the
move is an entry in the tag's log.
"""

from __future__ import annotations

import argparse
from typing import Any

from builder import console
from builder.errors import UsageError
from builder.matrix.cells import select
from builder.promotion.cell import CellTags, check_keys, find_image, promotable, tags_of
from builder.promotion.contents import RemoteImage, read_remote
from builder.promotion.moving import Moved, MovingTag
from builder.workspace import open_workspace


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("rollback", help="point a moving tag back at a good image",
                                   description=__doc__)
    parser.add_argument("cell", metavar="CELL", help="a cell id")
    parser.add_argument("--to", default="", metavar="TAG",
                        help="tag or digest of an earlier image of the log")
    parser.add_argument("--unverified", action="store_true", help="the tag CELL-unverified")
    parser.add_argument("--reason", default="", help="a sentence for the log")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document on standard output")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Roll one tag back, and say what changes with it."""
    workspace = open_workspace(options.matrix, make_cache=False)
    (cell,) = promotable(select(workspace.cells, [options.cell])[:1])
    check_keys([cell], workspace.root)
    tags = tags_of(cell, workspace.registry, workspace.root)
    tag = tags.unverified if options.unverified else tags.own
    if tag is None:
        raise UsageError("this image has no unverified tag", where=f"matrix.toml: {cell.id}",
                         next_step="leave out --unverified")
    to = find_image(tags, options.to).digest if options.to else ""
    moved = tag.rollback(to, options.reason)
    changes = what_changes(tags, moved)
    if options.json:
        console.document(document(moved, changes))
    else:
        show(tag, moved, changes)
    return 0


def what_changes(tags: CellTags, moved: Moved) -> dict[str, tuple[str, str]]:
    """Return the labelled versions that differ, by package: before and after."""
    before, after = (_image(tags, digest) for digest in (moved.before, moved.after))
    old, new = before.versions if before else {}, after.versions if after else {}
    return {name: (old.get(name, "none"), new.get(name, "none"))
            for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)}


def document(moved: Moved, changes: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Return a rollback as one JSON value."""
    return {"tag": moved.tag, "before": moved.before or None, "digest": moved.after,
            "changes": {name: list(pair) for name, pair in changes.items()},
            "skipped": list(moved.skipped)}


def show(tag: MovingTag, moved: Moved, changes: dict[str, tuple[str, str]]) -> None:
    """Say where the tag points now and which versions change back."""
    for line in moved.skipped:
        console.warn(f"not used: {line}")
    console.out(f"{tag.tag} -> {moved.after} (before: {moved.before or 'none'})")
    if changes:
        console.table("what changes back", ("package", "before", "now"),
                      [(name, *pair) for name, pair in changes.items()])
    else:
        console.out("no labelled version changes")


def _image(tags: CellTags, digest: str) -> RemoteImage | None:
    manifest = tags.repository.manifest(digest) if digest else None
    return read_remote(tags.repository, manifest) if manifest else None
