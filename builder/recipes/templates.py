"""Chat templates that their owner has replaced since: in a recipe, a checkpoint or on this host.

A stale template spoils the answers of a healthy server: thoughts in the text, loops of tool calls.
What is known (``templates.toml``) is compared with the recipe's digest, with the copy that a
checkpoint is known to carry, and with the copy on this host. Nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from builder.config_file import read_toml
from builder.files import sha256_file
from builder.model import Frozen, Link, Pattern
from builder.recipes.check import Finding
from builder.recipes.entry import Date
from builder.recipes.hub import snapshot_folder
from builder.recipes.models import Recipe
from builder.recipes.rules import Severity

KNOWN = Path(__file__).with_name("templates.toml")
FILE = "chat_template.jinja"
CHECK = "template"
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Version(Frozen):
    """One version that the owner published, and what it fixed."""

    sha256: Digest
    as_of: Date
    fixes: str


class Published(Frozen):
    """All versions of one owner's template, oldest first."""

    models: Pattern
    url: Link
    source: Link
    version: tuple[Version, ...] = Field(min_length=1)


class Copy(Frozen):
    """The version that another checkpoint was seen to carry."""

    models: Pattern
    of: Digest
    as_of: Date
    source: Link


class Known(Frozen):
    """Everything that is known of templates."""

    published: tuple[Published, ...]
    copy_: tuple[Copy, ...] = Field(alias="copy")

    @model_validator(mode="after")
    def _copies_are_of_known_versions(self) -> Known:
        unknown = {copy.of for copy in self.copy_} - {
            version.sha256 for owner in self.published for version in owner.version}
        if unknown:
            raise ValueError(f"no published version is {', '.join(sorted(unknown))}")
        return self

    def owner(self, digest: str) -> Published | None:
        """Return the owner whose version has this digest."""
        return next((owner for owner in self.published
                     if digest in {version.sha256 for version in owner.version}), None)


@cache
def load_templates() -> Known:
    """Return what this installation knows of templates."""
    return Known.model_validate(read_toml(KNOWN, what="chat templates", next_step=""))


def check_template(root: Path, recipe: Recipe) -> Iterator[Finding]:
    """Yield what is known to be wrong with the template that a recipe serves."""
    known, template, model = load_templates(), recipe.chat_template, recipe.model.name
    if template and (replaced := _replaced(known, template.sha256)):
        # With `replace`, the file at the address is fetched and must have the recipe's digest.
        yield _stale(f"chat_template.sha256 is the owner's version of {template.as_of}", replaced,
                     Severity.ERROR if template.replace else Severity.WARNING)
    if template and template.replace:
        return
    local = _local_copy(root, recipe)
    if template and local and local != template.sha256:
        yield Finding(check=CHECK, severity=Severity.ERROR, what=(
            f"{model} on this host has the template sha256:{local[:12]}…, and the recipe names "
            f"sha256:{template.sha256[:12]}…"),
            next_step="correct chat_template, or fetch the model again")
    seen = next((copy for copy in known.copy_ if re.search(copy.models, model)), None)
    carried = local or (seen.of if seen else "")
    if not template and (replaced := _replaced(known, carried)):
        where = "on this host" if local else f"as seen on {seen.as_of if seen else ''}"
        yield _stale(f"{model} carries an older template of its owner, {where}", replaced,
                     Severity.WARNING)


def _replaced(known: Known, digest: str) -> tuple[Published, tuple[Version, ...]] | None:
    """Return the owner and the versions that came after one; None where none is known."""
    owner = known.owner(digest)
    if owner is None:
        return None
    place = [version.sha256 for version in owner.version].index(digest)
    newer = owner.version[place + 1:]
    return (owner, newer) if newer else None


def _stale(what: str, replaced: tuple[Published, tuple[Version, ...]], severity: Severity
           ) -> Finding:
    owner, newer = replaced
    fixes = "; ".join(f"{version.as_of}: {version.fixes}" for version in newer)
    return Finding(check=CHECK, severity=severity, link=owner.source,
                   what=f"{what}; newer ones fixed: {fixes}",
                   next_step=f'set [chat_template] sha256 = "{newer[-1].sha256}", as_of = '
                             f'"{newer[-1].as_of}", url = "{owner.url}", replace = true')


def _local_copy(root: Path, recipe: Recipe) -> str | None:
    """Return the digest of the template in the model's folder or in the hub's cache."""
    folder = root / recipe.model.path if recipe.model.path else snapshot_folder(recipe)
    path = folder / FILE if folder else None
    try:
        return sha256_file(path) if path and path.is_file() else None
    except OSError:
        return None
