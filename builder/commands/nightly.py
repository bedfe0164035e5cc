"""Take cells through the whole cycle: newest wheels, build, smoke test, push and promote.

Where nothing is new, nothing is done. A cell that fails keeps its last good lock and its tags, and
one issue says why; the other cells go on. Each step is the command of that name.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from builder import console, process
from builder import labels as label
from builder.bases.state import read_bases
from builder.commands.option_types import key_or_identity
from builder.errors import SparkyardError
from builder.image import plan_image
from builder.locking.lock import load_for
from builder.matrix.cells import Cell, select
from builder.nightly.alone import alone
from builder.nightly.bases import BaseNights, Renewal, bases_of
from builder.nightly.cycle import KEPT, Cycle, Night, Ran, Runner
from builder.nightly.issues import FolderIssues, GitHubIssues, Issues
from builder.patches.load import load_series
from builder.patches.stage import series_digest
from builder.process_group import PARENT
from builder.promotion.cell import check_keys, promotable, tags_of
from builder.promotion.contents import read_remote
from builder.promotion.signing import KEY_VARIABLE, signing_key
from builder.workspace import Workspace, open_workspace

FOLDER = "nightly"
GRACE_S = 60.0  # a command that is asked to end removes its containers first


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("nightly", help="lock, build, test, push and promote cells",
                                   description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="CELL",
                        help="cell ids or globs (default: all that may be promoted)")
    parser.add_argument("--issues", choices=("folder", "github"), default="folder",
                        help="where failures are reported: files in the cache folder, or GitHub "
                        "by gh (default: %(default)s)")
    parser.add_argument("--keep-bases", action="store_true",
                        help="do not renew the locks of bases (without root they are kept anyway)")
    parser.add_argument("--sign", type=key_or_identity, metavar="KEY",
                        help="sign what is pushed with this private key of cosign (default: "
                        f"{KEY_VARIABLE}, where it is set)")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document on standard output")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Go through the cells; the exit code is 1 where one of them failed."""
    key = signing_key(options.sign)
    workspace = open_workspace(options.matrix)
    cells = [cell for cell in promotable(select(workspace.cells, options.cells))
             if options.cells or not cell.blocked]
    check_keys(cells, workspace.root)
    issues = (GitHubIssues() if options.issues == "github"
              else FolderIssues(workspace.cache / FOLDER))
    with alone(workspace.cache / FOLDER, workspace.root):
        nights = through(workspace, cells, runner(options.matrix), issues,
                         keep_bases=options.keep_bases, key=str(key or ""))
    if options.json:
        console.document([document(night) for night in nights])
    else:
        show(nights)
    return 1 if any(night.failed for night in nights) else 0


def through(workspace: Workspace, cells: Sequence[Cell], run: Runner, issues: Issues, *,
            keep_bases: bool, key: str = "") -> list[Night]:
    """Renew the bases, then take each cell through; the bases' results stand first."""
    nights = BaseNights(workspace.locks, workspace.cache / FOLDER, run, issues)
    renewals = [] if keep_bases else renewed(nights, cells)
    cycle = Cycle(workspace.locks, run, issues, lambda cell: is_done(workspace, cell),
                  {renewal.key: renewal.changes for renewal in renewals}, key)
    done: list[tuple[Cell, Night]] = []
    bases: list[Night] = []
    try:
        for number, cell in enumerate(cells, 1):
            console.info(f"{cell.id} ({number} of {len(cells)})")
            done.append((cell, cycle.cell(cell)))
    finally:  # also after Ctrl-C: a lock on which nothing passed does not stay
        bases = [nights.settle(renewal, done) for renewal in renewals]
    return [*bases, *(night for _, night in done)]


def renewed(nights: BaseNights, cells: Sequence[Cell]) -> list[Renewal]:
    """Renew the bases of the cells, where this user may make one."""
    keys = bases_of(cells)
    if keys and os.geteuid() != 0:
        console.warn("the locks of bases stay as they are: renewing one makes it, which needs root")
        return []
    return [nights.renew(key) for key in keys]


def runner(matrix: Path) -> Runner:
    """Return what runs one of our commands as a program of its own, which cannot end the night."""
    def run(words: Sequence[str]) -> Ran:
        console.info(f"  {' '.join(words)}")
        kept: deque[str] = deque(maxlen=KEPT)
        with process.stream([sys.executable, "-m", "builder", "--matrix", str(matrix), *words],
                            env={PARENT: str(os.getpid())}, grace=GRACE_S) as child:
            for line in process.lines(child):
                console.info(f"    {line}")
                kept.append(line)
            code = child.wait()
        return Ran(code, tuple(kept))
    return run


def is_done(workspace: Workspace, cell: Cell) -> bool:
    """Say whether the candidate is what a build would make now, and its tag was decided on.

    Some tag points at it, or was rolled back from it: no night undoes what an operator did.
    """
    tags = tags_of(cell, workspace.registry, workspace.root)
    manifest = tags.repository.manifest(f"{cell.id}-next")
    base = read_bases(workspace).get((cell.base_name, cell.platform))
    if manifest is None or base is None:
        return False
    try:
        lock = load_for(cell, workspace.locks)
        wanted = plan_image(cell, lock, base, "", workspace.registry, workspace.root,
                            series_digest(load_series(workspace, cell, lock, strict=False)))
        labels = read_remote(tags.repository, manifest).labels
    except SparkyardError:
        return False
    return labels.get(label.INPUTS) == wanted.inputs and any(
        tag.state().moving == manifest.digest or tag.was_left(manifest.digest)
        for tag in tags.all())


def document(night: Night) -> dict[str, object]:
    """Return one cell's night as a JSON value."""
    return {"cell": night.cell, "state": night.state, "failed": night.failed,
            "why": list(night.why), "changes": list(night.changes), "notes": list(night.notes)}


def show(nights: Sequence[Night]) -> None:
    """Print the summary: a row a cell."""
    console.table("the night", ("cell", "result", "what changed"), [
        (night.cell, night.state, night.summary) for night in nights])
