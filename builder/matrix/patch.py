"""A patch as the matrix declares it: where it comes from, which wheels need it, and why.

What was found for it (commits, hashes) stands in the locks; nothing here was looked up.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated

from packaging.utils import canonicalize_name
from pydantic import AfterValidator, Field, model_validator

from builder import specifiers
from builder.model import Frozen, Name, Specifier
from builder.wording import WrongValueError

COMMIT = r"^[0-9a-f]{40}$"
REPOSITORY = r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$"
RANGE = re.compile(r"(?P<base>[\w./-]+?)\.\.\.(?P<head>[\w./-]+)")
SHORT = 8  # hex digits of a commit in versions and names


class Kind(StrEnum):
    """Where a patch comes from."""

    PULL = "pull"
    COMMIT = "commit"
    COMPARE = "compare"
    FILE = "file"


def _range(text: str) -> str:
    if not RANGE.fullmatch(text):
        raise WrongValueError(f"{text!r} is not a range of two names with three dots",
                              'write it like "v0.20.2...main"')
    return text


def _inside(text: str) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or "\\" in text or not path.name:
        raise WrongValueError(f"{text!r} does not lie in the checkout",
                              "copy the file there, and write its path from the matrix's folder")
    return text


class Patch(Frozen):
    """One declared patch: a pull request, a commit, a range of commits, or a file of the checkout.

    ``package`` is the distribution that it is for (``vllm`` stands for whichever one the cell
    installs), ``versions`` those that need it, ``images`` globs of images or cells. With
    ``revert`` the change is taken back. ``include`` and ``exclude`` are globs of paths; tests
    and documents are left out unless included.
    """

    repository: Annotated[str, Field(pattern=REPOSITORY)] | None = None
    pull: Annotated[int, Field(ge=1)] | None = None
    commit: Annotated[str, Field(pattern=COMMIT)] | None = None
    compare: Annotated[str, AfterValidator(_range)] | None = None
    file: Annotated[str, AfterValidator(_inside)] | None = None
    package: Name = "vllm"
    images: Annotated[tuple[str, ...], Field(min_length=1)] = ("*",)
    versions: Specifier = "*"
    required: bool = True
    revert: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    reason: str = Field(min_length=1)

    @model_validator(mode="after")
    def _one_origin(self) -> Patch:
        named = [kind for kind in Kind if getattr(self, kind) is not None]
        if len(named) != 1:
            raise WrongValueError("a patch has one origin, and here are "
                                  f"{len(named) or 'none'}",
                                  "name one of pull, commit, compare and file")
        if (self.repository is None) != (self.kind is Kind.FILE):
            raise WrongValueError("a file has no repository" if self.repository else
                                  f"a {self.kind} needs the repository that it is in",
                                  "leave repository out" if self.repository else
                                  'add repository = "OWNER/NAME"')
        return self

    @property
    def kind(self) -> Kind:
        """Return where the patch comes from."""
        return next(kind for kind in Kind if getattr(self, kind) is not None)

    @property
    def source(self) -> str:
        """Return the patch's name for people: ``vllm-project/vllm#38909``."""
        match self.kind:
            case Kind.PULL:
                return f"{self.repository}#{self.pull}"
            case Kind.COMMIT:
                return f"{self.repository}@{(self.commit or '')[:SHORT]}"
            case Kind.COMPARE:
                return f"{self.repository}:{self.compare}"
            case Kind.FILE:
                return self.file or ""

    @property
    def id(self) -> str:
        """Return the name with what is done to it."""
        return f"revert of {self.source}" if self.revert else self.source

    def tag(self, name: str) -> str:
        """Return the part of a patched version; ``name`` is the patch's own in the matrix."""
        text = {Kind.PULL: str(self.pull), Kind.COMMIT: (self.commit or "")[:SHORT]}.get(
            self.kind, name)
        return f"revert.{text}" if self.revert else text

    @property
    def digest(self) -> str:
        """Return the sha256 of all that changes what is applied; the reason is left out."""
        text = self.model_dump_json(exclude={"reason", "images", "versions"},
                                    exclude_defaults=True)
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    def wheel(self, vllm_package: str) -> str:
        """Return the name of the wheel that it is for, in a cell with this vLLM."""
        return wheel_name(self.package, vllm_package)


def wheel_name(package: str, vllm_package: str) -> str:
    """Return a wheel's canonical name; ``vllm`` is whichever vLLM the cell installs."""
    return vllm_package if package == "vllm" else str(canonicalize_name(package))


def needed(patches: Mapping[str, Patch], vllm_package: str, versions: Mapping[str, str]
           ) -> Iterator[tuple[str, Patch]]:
    """Yield the patches, by name, that a closure of these wheel versions needs, in order."""
    for name, patch in patches.items():
        version = versions.get(patch.wheel(vllm_package))
        if version is not None and specifiers.allows(patch.versions, version):
            yield name, patch
