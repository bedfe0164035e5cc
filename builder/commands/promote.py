"""Move a cell's tag to an image that has shown what the matrix asks for.

The tag moves only where records of the right level and hardware, attached to that very image, say
pass. Each move is an entry in the tag's log, which lies in the registry.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import console
from builder.attachments import own_records
from builder.commands.option_types import refuse_beside, user_path
from builder.limits import read_file
from builder.matrix.cells import Cell, select
from builder.promotion.cell import (
    CellTags,
    Promoted,
    check_keys,
    find_image,
    promotable,
    promote,
    tags_of,
)
from builder.promotion.evidence import attach_record, attach_signature, demand, mend_evidence
from builder.promotion.log import Logged, aside
from builder.promotion.moving import MovingTag
from builder.promotion.signing import SIGNATURE_CHARS
from builder.record.models import Record, now
from builder.record.reader import read_record
from builder.workspace import Workspace, open_workspace


@dataclass(frozen=True)
class Result:
    """One cell's promotion and how many of this machine's records were attached before it."""

    cell: str
    done: Promoted
    records: int


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("promote", help="move tags to images that passed",
                                   description=__doc__)
    parser.add_argument("cells", nargs="+", metavar="CELL", help="cell ids or globs")
    parser.add_argument("--image", default="", metavar="TAG",
                        help="tag or sha256 digest of the image (default: CELL-next)")
    parser.add_argument("--record", action="append", type=user_path, default=[], metavar="FILE",
                        help="first attach this record of the image, from another machine, and its "
                        "signature FILE.sig if there is one; may be repeated")
    parser.add_argument("--reason", default="", help="a sentence for the log")
    parser.add_argument("--log", action="store_true", help="show the log instead")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document on standard output")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Promote cell by cell, or show the logs; the first refusal stops."""
    if options.log:
        refuse_beside(options, "--log", image="--image", record="--record", reason="--reason")
    workspace = open_workspace(options.matrix, make_cache=False)
    cells = promotable(select(workspace.cells, options.cells))
    if options.log:
        return show_logs([tags_of(cell, workspace.registry, workspace.root) for cell in cells],
                         as_json=options.json)
    check_keys(cells, workspace.root)
    records = [(read_record(path), _signature(path)) for path in options.record]
    results = [promote_cell(workspace, cell, options, records) for cell in cells]
    if options.json:
        console.document([document(result) for result in results])
    else:
        for result in results:
            show(result)
    return 0


def promote_cell(workspace: Workspace, cell: Cell, options: argparse.Namespace,
                 given: Sequence[tuple[Record, str]]) -> Result:
    """Attach ``given`` and this machine's own records of the image, and promote it."""
    tags = tags_of(cell, workspace.registry, workspace.root)
    manifest = find_image(tags, options.image)
    mend_evidence(tags.repository, manifest, now())
    records = [*given, *((record, "") for record in own_records(workspace, manifest))]
    for record, signature in records:
        artifact = attach_record(tags.repository, manifest, record)
        if signature:
            attach_signature(tags.repository, artifact, signature)
    return Result(cell.id, promote(tags, manifest.digest, options.reason), len(records))


def _signature(record: Path) -> str:
    """Return the signature that lies beside a record; empty where there is none."""
    path = record.with_name(f"{record.name}.sig")
    if not path.exists():
        return ""
    return read_file(path, SIGNATURE_CHARS, "signature").decode("ascii", "replace").strip()


def show(result: Result) -> None:
    """Say in a few lines what the tag points at now, and what it does not promise."""
    moved = result.done.moved
    if moved.repaired:
        console.out(f"{moved.tag}: an earlier run was cut off; its step is complete now")
    was = "it points there already" if moved.entry is None else f"before: {moved.before or 'none'}"
    console.out(f"{moved.tag} -> {moved.after} ({was})")
    if result.done.dated:
        console.out(f"{moved.tag}: kept as {result.done.dated}")
    if result.done.lacking:
        lacking = result.done.lacking.partition("\n")[0]
        console.out(f"{result.cell} itself stays as it is: {lacking}")


def document(result: Result) -> dict[str, Any]:
    """Return a promotion as one JSON value."""
    moved = result.done.moved
    return {"cell": result.cell, "tag": moved.tag, "before": moved.before or None,
            "digest": moved.after, "moved": moved.entry is not None, "repaired": moved.repaired,
            "dated": result.done.dated or None, "lacking": result.done.lacking or None,
            "records_attached": result.records}


def show_logs(cells: Sequence[CellTags], *, as_json: bool) -> int:
    """Show the log of each moving tag, oldest entry first, and what does not count."""
    logs = [(tag, tag.history()) for tags in cells for tag in tags.all()]
    if as_json:
        console.document([{"tag": tag.tag, "digest": tag.state().moving or None,
                           "entries": [one.entry.model_dump(mode="json") for one in entries]}
                          for tag, entries in logs])
        return 0
    for tag, entries in logs:
        rows = [_row(one) for one in entries]
        console.table(f"{tag.tag} ({len(rows)} entries)",
                      ("number", "time", "did", "image", "records", "reason"), rows)
        _show_state(tag, entries)
    for tags in cells:
        console.out(f"{tags.cell} needs {demand(tags.needed)}")
    return 0


def _row(one: Logged) -> tuple[object, ...]:
    entry = one.entry
    return (entry.number, entry.time, entry.action, entry.target, len(entry.records), entry.reason)


def _show_state(tag: MovingTag, entries: Sequence[Logged]) -> None:
    """Say where the tag and its log disagree, and which entries do not count."""
    moving = tag.state().moving
    if entries and moving != entries[-1].entry.target:
        console.warn(f"{tag.tag} points at {moving or 'nothing'}, not at its log's last image; the "
                     "next promotion or rollback corrects that")
    for name in aside(tag.repository, tag.tag, entries):
        console.out(f"does not count: {name}, of a run that lost, or which the registry "
                    "cannot read, or not an entry of this log")
