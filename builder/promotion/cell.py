"""Promote and roll back a cell's moving tags, by the policy that the matrix has for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from builder import console
from builder.config_file import dotted
from builder.errors import UsageError, command
from builder.image import local_name
from builder.matrix.cells import Cell
from builder.matrix.promotion import Promotion, Requirement
from builder.promotion.dated import give_dated
from builder.promotion.evidence import (
    Proof,
    UnprovenError,
    gather,
    prove,
)
from builder.promotion.moving import UNVERIFIED, Moved, MovingTag
from builder.promotion.signing import require_key
from builder.registry.client import Client
from builder.registry.reference import is_digest, is_tag, parse
from builder.registry.repository import Manifest, Repository

NAMING = ("a tag has letters, digits, dots, dashes and underscores; a digest is sha256: and 64 "
          "hexadecimal digits")


@dataclass(frozen=True)
class CellTags:
    """A cell's repository, its policy, and the moving tags that the policy has.

    Without a policy there are none; ``refusal`` says why, and where the matrix says so.
    """

    repository: Repository
    cell: str
    policy: Promotion | None
    options: dict[str, Callable[[], object]] = field(default_factory=dict)
    refusal: UsageError | None = None
    root: Path = Path()

    @property
    def keys(self) -> tuple[Path, ...]:
        """Return the policy's public keys; a record that says pass counts if one signed it."""
        return tuple(self.root / name for name in (self.policy.keys if self.policy else ()))

    @property
    def needed(self) -> Promotion:
        """Return the policy; raises UsageError where the cell is never promoted."""
        if self.policy is None:
            raise self.refusal or UsageError("there is no policy", where=self.cell,
                                             next_step="add [promote] to matrix.toml")
        return self.policy

    @property
    def own(self) -> MovingTag:
        """Return the cell's own moving tag; raises UsageError as ``needed`` does."""
        return self._tag(self.cell, self.needed)

    @property
    def unverified(self) -> MovingTag | None:
        """Return the tag that promises less; None where the policy has none."""
        needed = self.policy.unverified if self.policy else None
        return self._tag(f"{self.cell}{UNVERIFIED}", needed, unverified=True) if needed else None

    def all(self) -> list[MovingTag]:
        """Return the moving tags; none for a cell that is never promoted."""
        return [*([self.own] if self.policy else []),
                *([self.unverified] if self.unverified else [])]

    def _tag(self, name: str, needed: Requirement, *, unverified: bool = False) -> MovingTag:
        def proof(digest: str) -> Proof:
            return prove(gather(self.repository, digest, self.keys), self.cell, needed, self.needed)
        return MovingTag(self.repository, name, proof, unverified, **self.options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Promoted:
    """A promotion: what moved, the dated tag, and what the cell's own tag still lacks, if so."""

    moved: Moved
    dated: str
    lacking: str = ""


def tags_of(cell: Cell, registry: str, root: Path) -> CellTags:
    """Return a cell's tags in a registry; ``root`` is the checkout, which has the policy's keys."""
    client = Client(parse(local_name(registry, cell)))
    return CellTags(Repository(client), cell.id, cell.promote, refusal=_refusal(cell),
                    root=root)


def promotable(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return the cells that have a policy; raises UsageError where none of them has one."""
    found = tuple(cell for cell in cells if cell.promote)
    refusals = [error for cell in cells if (error := _refusal(cell))]
    if refusals and not found:
        raise refusals[0]
    for error in refusals:
        console.info(f"left out: {error.where}: {error.what}")
    return found


def check_keys(cells: Sequence[Cell], root: Path) -> None:
    """Raise UsageError where a public key of a policy, or cosign, is not there; asks nobody.

    Otherwise a record that was signed would count as one that nobody signed.
    """
    for cell in cells:
        for name in cell.promote.keys if cell.promote else ():
            require_key(root / name, f"matrix.toml: the key of {cell.id}'s promotion,")


def _refusal(cell: Cell) -> UsageError | None:
    """Return why a cell has no moving tag; None where it has a policy."""
    where = f"matrix.toml: {dotted(('images', cell.image))}, cell {cell.id}"
    if cell.never_promote:
        return UsageError(f"this cell is never promoted: {cell.never_promote}", where=where,
                          next_step="name another cell, or remove never_promote")
    return None if cell.promote else UsageError(
        "the matrix does not say what this image must show to be promoted", where=where,
        next_step="add [promote] with level and hardware")


def find_image(tags: CellTags, name: str = "") -> Manifest:
    """Return the image under a tag or digest, by default the cell's ``-next``.

    Raises UsageError where there is none, and for a name that no image can have, before anything
    is asked.
    """
    wanted = name or f"{tags.cell}-next"
    mark = "@" if wanted.startswith("sha256:") else ":"
    where = f"{tags.repository.name}{mark}{wanted}"
    if not (is_digest(wanted) or is_tag(wanted)):
        raise UsageError("this is neither a tag nor a digest", where=where, next_step=NAMING)
    found = tags.repository.manifest(wanted)
    if found is None:
        raise UsageError("the registry does not have this image", where=where,
                         next_step=f"{command('tags', tags.cell)} shows what is there" if name
                         else f"push it: {command('push', tags.cell, '--next')}")
    return found


def promote(tags: CellTags, target: str, reason: str = "") -> Promoted:
    """Move the cell's tag to an image, or its unverified tag where that is all it has shown.

    Raises UnprovenError where it has not even shown that.
    """
    try:
        return _finished(tags.own, tags.own.promote(target, reason), tags)
    except UnprovenError as error:
        if tags.unverified is None or error.where != target:
            raise
        moved = tags.unverified.promote(target, reason)
        return _finished(tags.unverified, moved, tags, error.what)


def _finished(tag: MovingTag, moved: Moved, tags: CellTags, lacking: str = "") -> Promoted:
    """Give the image its dated tag; a run that was killed before it is made up for."""
    head, manifest = tag.state().head, tags.repository.manifest(moved.after)
    dated = give_dated(tags.repository, head.entry, manifest) if (
        head and manifest and head.entry.target == moved.after
        and head.entry.action == "promote") else ""
    return Promoted(moved, dated, lacking)
