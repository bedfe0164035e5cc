"""What is attached to an image, for other programs: its list of contents, and lists made of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.utils import canonicalize_name

from builder import specifiers
from builder.errors import VerdictError, command
from builder.promotion.verify import SBOM_TYPE
from builder.registry.repository import Repository
from builder.sbom import contents

NO_LICENCE = "none named"
DIGEST = re.compile(r"[0-9a-f]{64}")
PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class Bom:
    """An attached list of contents: its bytes, and what they say."""

    data: bytes
    value: Mapping[str, Any]

    @property
    def wheels(self) -> dict[str, str]:
        """Return the wheels and their versions."""
        return contents(self.value)[0]

    @property
    def debs(self) -> dict[str, str]:
        """Return the Debian packages and their versions."""
        return contents(self.value)[1]

    @property
    def licences(self) -> list[tuple[str, int]]:
        """Return the licences that the wheels name, the most frequent first."""
        counted = Counter(_licence(one) for one in self._wheels())
        return sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))

    def requirements(self) -> str:
        """Return the wheels as a requirements file with hashes, as pip and pip-audit read it.

        Raises ValueError for a name, version or hash that is none: pip might read options there.
        """
        return "".join(sorted(f"{_pinned(one)}{_hashes(one)}\n" for one in self._wheels()))

    def _wheels(self) -> Iterator[Mapping[str, Any]]:
        return (one for one in self.value["components"]
                if str(one.get("purl", "")).startswith("pkg:pypi/"))


def read_bom(repository: Repository, digest: str, cell: str) -> Bom:
    """Return the list of contents that is attached to a manifest.

    Raises VerdictError where there is none, several that differ, or one that cannot be read.
    """
    found = {data for one in repository.referrers(digest, SBOM_TYPE)
             if (data := repository.attached(one, digest))}
    where = f"{repository.name}@{digest}"
    if len(found) != 1:
        raise VerdictError("no list of contents (SBOM) is attached" if not found else
                           f"{len(found)} lists of contents are attached, and they differ",
                           where=where, next_step=f"push the image again: {command('push', cell)}"
                           if not found else f"see which one lies: {command('verify', cell)}")
    (data,) = found
    try:
        bom = Bom(data, json.loads(data))
        bom.requirements()
        bom.licences  # noqa: B018 - it is read, so that a damaged list is said here
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise VerdictError("the attached list of contents cannot be read", where=where,
                           next_step=f"push the image again: {command('push', cell)}") from error
    return bom


def _pinned(component: Mapping[str, Any]) -> str:
    """Return ``name==version``; the document is of whoever may write to the registry."""
    name, version = component["name"], component["version"]
    if not (PACKAGE.fullmatch(name) and specifiers.is_exact(version)):
        raise ValueError(f"{name!r} {version!r} is not a package and its version")
    return f"{canonicalize_name(name)}=={version}"


def _hashes(component: Mapping[str, Any]) -> str:
    found = [one["content"] for one in component.get("hashes", []) if one.get("alg") == "SHA-256"]
    if not all(DIGEST.fullmatch(digest) for digest in found):
        raise ValueError("a sha256 is none")
    return "".join(f" --hash=sha256:{digest}" for digest in found)


def _licence(component: Mapping[str, Any]) -> str:
    for one in component.get("licenses", []):
        known = one.get("license", {})
        return str(one.get("expression") or known.get("id") or known.get("name") or NO_LICENCE)
    return NO_LICENCE
