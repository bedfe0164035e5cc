"""``sparkyard site``: the public page of a checkout: which model runs on which image, by digest."""

from __future__ import annotations

import argparse
from pathlib import Path

from builder import console
from builder.commands.option_types import user_path
from builder.diagnosis.catalogue import load
from builder.errors import ConfigError, SparkyardError, UsageError
from builder.matrix.cells import Cell
from builder.promotion.cell import tags_of
from builder.recipes.roofline import lines as roofline
from builder.recipes.roofline import load_figures
from builder.record.find import as_ended
from builder.record.models import now, records_folder
from builder.record.reader import read_records
from builder.site.contents import contents_of
from builder.site.evidence import gather
from builder.site.failures import failures
from builder.site.folder import check_folder, write_folder
from builder.site.page import Site, Tag, pages, shown_cells
from builder.site.speeds import lines
from builder.workspace import Workspace, open_workspace

Tags = dict[str, tuple[Tag, ...]]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "site", help="make the public page: which model runs on which image",
        description="Make a static page from the records, the locks and the catalogue of known "
                    "failures: which model runs on which image, by digest, with the evidence.")
    parser.add_argument("--output", type=user_path, required=True, metavar="DIR",
                        help="a new or empty folder, or an earlier page, which is replaced")
    parser.add_argument("--records", type=user_path, metavar="DIR",
                        help="read the records below this folder (default: those of the cache)")
    parser.add_argument("--tags", action="store_true",
                        help="ask the registry where the moving tags point, and how they moved")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Make the page; 0 whatever the records say."""
    workspace = open_workspace(options.matrix, make_cache=False)
    check_folder(options.output, workspace.cache)
    folder = options.records or records_folder(workspace.cache)
    if options.records and not folder.is_dir():
        raise UsageError("there is no such folder", where=str(folder),
                         next_step="name a folder of records: --records DIR")
    site = collect(workspace, folder, _tags(workspace) if options.tags else {})
    files = pages(site)
    write_folder(options.output, files)
    console.info(f"{len(site.records)} records, {len(site.tested)} of {len(site.cells)} images "
                 f"tested, {len(site.verified)} verified on a GB10")
    console.info(f"page: {options.output / 'index.html'} "
                 f"({console.size(len(files['index.html'].encode()))})")
    return 0


def collect(workspace: Workspace, folder: Path, tags: Tags) -> Site:
    """Read all that the page shows."""
    records = [as_ended(record) for record in read_records(folder)]
    contents = {cell.id: contents_of(workspace.locks, cell) for cell in workspace.cells}
    locks = {name: one.lock for name, one in contents.items() if one.lock}
    return Site(made=now(), cells=shown_cells(workspace.cells, contents, gather(records), tags),
                records=records, lines=lines(records), published=_published(workspace.root),
                failures=failures(load(), locks, records))


def _published(root: Path) -> list[list[str]]:
    """Return the roofline's rows; none where the checkout lacks the models' facts."""
    try:
        return list(roofline(load_figures(), root))
    except ConfigError as error:
        console.warn(f"published speeds are left out: {error}")
        return []


def _tags(workspace: Workspace) -> Tags:
    return {cell.id: _pointed(workspace, cell) for cell in workspace.cells if cell.promote}


def _pointed(workspace: Workspace, cell: Cell) -> tuple[Tag, ...]:
    """Return the moving tags of a cell that the registry has, with their moves."""
    try:
        tags = tags_of(cell, workspace.registry, workspace.root).all()
        return tuple(Tag(tag.tag, digest, tuple(one.entry for one in tag.history()))
                     for tag in tags if (digest := tag.state().moving))
    except SparkyardError as error:
        console.warn(f"{cell.id}: its tags are left out: {error.what.splitlines()[0]}")
        return ()
