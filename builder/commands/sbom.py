"""Show what an image holds: wheels, Debian packages, licences; write it for other programs.

What is shown is the CycloneDX document that is attached to the image in the registry. Sparkyard has
no data about vulnerabilities: `pip-audit` reads the requirements, other scanners the document.
"""

from __future__ import annotations

import argparse

from builder import console
from builder.cache_folder import named_folder
from builder.commands.option_types import user_path
from builder.commands.verify import named_image
from builder.files import check_outputs, write_bytes
from builder.promotion.cell import find_image
from builder.promotion.documents import Bom, read_bom
from builder.workspace import open_workspace

SHOWN = 12  # licences of the table


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("sbom", help="show or write what an image holds",
                                   description=__doc__)
    parser.add_argument("image", metavar="REF", help="a cell, or CELL:TAG, or CELL@sha256:…")
    parser.add_argument("--output", type=user_path, metavar="FILE",
                        help="write the CycloneDX document")
    parser.add_argument("--requirements", type=user_path, metavar="FILE",
                        help="write the wheels with their hashes, for pip-audit: "
                        "`pip-audit --disable-pip -r FILE`")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Read the attached document, and show it or write what was asked for."""
    check_outputs(options.output, options.requirements, inputs=[options.matrix],
                  protected=named_folder())
    workspace = open_workspace(options.matrix, make_cache=False)
    tags, name = named_image(workspace, options.image)
    manifest = find_image(tags, name)
    bom = read_bom(tags.repository, manifest.digest, tags.cell)
    if options.output:
        write_bytes(options.output, bom.data)
    if options.requirements:
        write_bytes(options.requirements, bom.requirements().encode())
    if not (options.output or options.requirements):
        show(f"{tags.repository.name}@{manifest.digest}", bom)
    return 0


def show(image: str, bom: Bom) -> None:
    """Print how much there is, and under which licences."""
    licences = bom.licences
    console.table(f"licences of the wheels of {image}", ("wheels", "licence"),
                  [(count, name) for name, count in licences[:SHOWN]])
    if len(licences) > SHOWN:
        console.out(f"and {len(licences) - SHOWN} more licences")
    console.out(f"{len(bom.wheels)} wheels, {len(bom.debs)} Debian packages")
