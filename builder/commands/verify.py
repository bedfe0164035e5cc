"""Check an image in a registry against all that is said of it.

Its layers are streamed and hashed. What is installed is compared with the attached lock and list of
contents, the attached records with the image, and a moving tag with its log.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from builder import console
from builder import labels as label
from builder.commands.option_types import user_path
from builder.errors import UsageError
from builder.matrix.cells import Cell, near
from builder.promotion.cell import NAMING, CellTags, find_image, tags_of
from builder.promotion.contents import read_remote
from builder.promotion.identity import identity_problem, signer_of
from builder.promotion.signing import require_key, signature_problem
from builder.promotion.verify import Finding, verify_image
from builder.registry.reference import is_digest, is_tag
from builder.text import one_line
from builder.workspace import Workspace, open_workspace

SHOWN = 100  # characters of a name that is none
INDENT = " " * 19  # of the lines below a finding's first


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("verify", help="check an image in a registry",
                                   description=__doc__)
    parser.add_argument("image", metavar="REF", help="a cell, or CELL:TAG, or CELL@sha256:…")
    parser.add_argument("--key", type=user_path, metavar="FILE",
                        help="cosign's public key that must have signed the image")
    parser.add_argument("--identity", metavar="NAME",
                        help="who must have signed the image, as the certificate names it")
    parser.add_argument("--issuer", metavar="URL", help="who vouches for the identity")
    parser.add_argument("--roots", type=user_path, metavar="FILE",
                        help="root certificates of your own authority, in the place of Sigstore's")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document on standard output")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Verify one image; the exit code is 1 where anything is wrong."""
    if options.key:
        require_key(options.key, "--key")
    signer = signer_of(options.identity, options.issuer, options.roots)
    workspace = open_workspace(options.matrix, make_cache=False)
    tags, name = named_image(workspace, options.image)
    manifest = find_image(tags, name)
    image = read_remote(tags.repository, manifest)
    with console.progress("verify", float(sum(layer.size for layer in image.layers))) as meter:
        findings = verify_image(tags, image, name, meter.advance)
    if options.key:
        findings.append(Finding("signature", signature_problem(
            tags.repository, manifest.digest, options.key), seen=f"signed by {options.key.name}"))
    if signer:
        findings.append(Finding("identity", identity_problem(
            tags.repository, manifest.digest, signer), seen=f"signed by {signer.name}"))
    cell = image.labels.get(label.CELL)
    if cell != tags.cell:
        findings.append(Finding("cell", f"the image is one of {cell or 'no cell'}"))
    good = not any(finding.problem for finding in findings)
    if options.json:
        console.document({"image": f"{tags.repository.name}@{manifest.digest}", "good": good,
                          "findings": [vars(finding) for finding in findings]})
    else:
        show(f"{tags.repository.name}@{manifest.digest}", findings)
    return 0 if good else 1


def named_image(workspace: Workspace, text: str) -> tuple[CellTags, str]:
    """Read ``cpu``, ``cpu:TAG`` or ``cpu@sha256:…``.

    Raises UsageError for an unknown cell, and for what is no tag or digest behind it.
    """
    cell, mark, name = text.partition("@") if "@" in text else text.partition(":")
    tags = tags_of(_cell(workspace, cell), workspace.registry, workspace.root)
    if (mark == "@" and not is_digest(name)) or (mark == ":" and not is_tag(name)):
        raise UsageError(f"what stands behind {mark} is no {'digest' if mark == '@' else 'tag'}",
                         where=one_line(text, SHOWN), next_step=NAMING)
    return tags, name or cell


def show(image: str, findings: Sequence[Finding]) -> None:
    """Print a line a finding; what is wrong stands in full."""
    for finding in findings:
        verdict = "WRONG" if finding.problem else "good"
        first, *rest = (finding.problem or finding.seen).split("\n")
        console.out("\n".join([f"{verdict:6} {finding.subject:9} {first}",
                               *(f"{INDENT}{line.strip()}" for line in rest)]))
    wrong = sum(bool(finding.problem) for finding in findings)
    console.out(f"{'FAILED' if wrong else 'PASSED'}: {image}, {wrong} wrong of {len(findings)}")


def _cell(workspace: Workspace, name: str) -> Cell:
    found = next((cell for cell in workspace.cells if cell.id == name), None)
    if found is None:
        raise UsageError(f'there is no cell "{name}"', where="command line",
                         next_step="name a cell, CELL:TAG or CELL@sha256:…; "
                         + near(name, [cell.id for cell in workspace.cells]))
    return found
