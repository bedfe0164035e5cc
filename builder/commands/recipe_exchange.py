"""``recipe show --format`` and ``recipe import``: recipes for other tools, and from them."""

from __future__ import annotations

import argparse
from pathlib import Path

from builder import console
from builder.bases.state import read_bases
from builder.commands.option_types import user_path, user_path_text, whole_number
from builder.errors import SparkyardError, UsageError
from builder.image import local_name, plan_image
from builder.limits import SETTINGS_BYTES, read_file
from builder.locking.lock import Lock
from builder.matrix.cells import Cell
from builder.publish import reference_of
from builder.recipes.exports.formats import FORMATS
from builder.recipes.exports.service import KEY, LOOPBACK, PUBLIC, Asked, Image, Service
from builder.recipes.imports.draft import draft, problems, to_toml
from builder.recipes.imports.foreign import read_foreign
from builder.record.models import records_folder
from builder.record.reader import read_records
from builder.workspace import Workspace

NODES_MOST = 64


def add_export_options(show: argparse.ArgumentParser) -> None:
    """Add the format and what can be asked of the exported server."""
    form = show.add_mutually_exclusive_group()
    form.add_argument("--format", choices=tuple(FORMATS),
                      help="print only this, for the tool that it names")
    form.add_argument("--json", action="store_true", help="print one JSON document")
    where = show.add_mutually_exclusive_group()
    where.add_argument("--host", default=LOOPBACK, metavar="ADDRESS",
                       help=f"the address of this machine to listen on (default: {LOOPBACK})")
    where.add_argument("--public", action="store_const", dest="host", const=PUBLIC,
                       help="listen on all addresses")
    show.add_argument("--api-key-file", type=user_path_text, default="", metavar="FILE",
                      help="a file with the line VLLM_API_KEY=...; clients then need the key")
    show.add_argument("--nodes", type=whole_number(1, NODES_MOST), default=1, metavar="N",
                      help="split the model over N machines (sparkrun, eugr, kubernetes)")


def add_import(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``recipe import``."""
    parser = verbs.add_parser(
        "import", help="print a draft of a recipe from one of sparkrun or eugr",
        description="Reads a recipe of sparkrun (version 2) or of eugr's spark-vllm-docker "
                    "(version 1) and prints a draft of ours. What could not be carried over "
                    "stands at its top.")
    parser.add_argument("file", type=user_path, metavar="FILE", help="a YAML file")
    parser.add_argument("--image", metavar="IMAGE",
                        help="the image of the matrix to run on (default: its first for a GPU)")


def asked(args: argparse.Namespace) -> Asked:
    """Return what the options ask for; a line break in a path could end a comment."""
    if any(ord(char) < 32 for char in args.api_key_file):
        raise UsageError("the path has a control character", where="--api-key-file",
                         next_step="name another file")
    if args.nodes > 1 and not args.format:
        raise UsageError("the docker command starts one container on one machine",
                         where="--nodes", next_step="add --format sparkrun, eugr or kubernetes")
    if args.api_key_file:
        _check_key_file(Path(args.api_key_file))
    return Asked(args.host, args.api_key_file, args.nodes)


def _check_key_file(path: Path) -> None:
    """Look at the file as far as this machine has it: what is shown may be meant for another."""
    where = f"--api-key-file {path}"
    try:
        text = read_file(path, SETTINGS_BYTES, "file with an API key").decode("utf-8", "replace")
    except FileNotFoundError:
        console.warn(f"{where}: this machine has no such file; the machine that serves needs it")
        return
    except OSError as error:
        console.warn(f"{where}: cannot be looked at here: {error.strerror}")
        return
    if not any(line.startswith(f"{KEY}=") for line in text.splitlines()):
        raise UsageError(f"the file has no line {KEY}=...", where=where,
                         next_step=f"write {KEY}= before the key, or name another file")


def export(service: Service, name: str) -> None:
    """Print the recipe in one format and nothing else."""
    console.out(FORMATS[name](service).rstrip("\n"))


def reference(workspace: Workspace, cell: Cell, lock: Lock | None) -> Image:
    """Return the image of a cell by digest where a record knows it; asks no engine, no network."""
    name = local_name(workspace.registry, cell)
    # Of records that cannot be read nothing is said: a recipe is shown, and it needs none.
    records = read_records(records_folder(workspace.cache), warn=False) if lock else []
    return Image(*reference_of(records, name, lock, _immutable(workspace, cell, lock)))


def import_recipe(workspace: Workspace, args: argparse.Namespace) -> int:
    """Print the draft; what was lost also goes to standard error."""
    images = {cell.image: cell.is_cuda for cell in workspace.cells}
    image = args.image or next((name for name, cuda in images.items() if cuda), next(iter(images)))
    if image not in images:
        raise UsageError(f'the matrix has no image "{image}"', where="--image",
                         next_step=f"one of {', '.join(images)}")
    found = draft(read_foreign(args.file), image)
    console.out(to_toml(found).rstrip("\n"))
    for loss in found.lost:
        console.warn(f"not carried over: {loss}")
    for problem in problems(found):
        console.warn(f"to be filled in or corrected: {problem}")
    return 0


def _immutable(workspace: Workspace, cell: Cell, lock: Lock | None) -> str:
    """Return the tag that a build of this lock gets; empty where it cannot be told from files.

    The diffs of a patched cell are part of its tag and may have to be downloaded.
    """
    if lock is None or lock.patches:
        return ""
    try:
        base = read_bases(workspace).get((cell.base_name, cell.platform))
        return "" if base is None else plan_image(
            cell, lock, base, "", workspace.registry, workspace.root).tag
    except (SparkyardError, OSError):
        return ""
