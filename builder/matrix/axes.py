"""The axes of the matrix: their names, what a value may look like, and its part of a cell's id."""

from __future__ import annotations

import re
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

AXES = ("base", "torch", "vllm", "flashinfer", "transformers")
VERSION_AXES = AXES[1:]


def specifier(text: str) -> str:
    """Accept ``0.20.2`` (exactly that), ``>=5.5.1,<6`` or ``*`` (whatever the others allow).

    Raises ValueError for anything else.
    """
    try:
        SpecifierSet("" if text == "*" else text if re.match(r"[<>=!~]", text) else f"=={text}")
    except InvalidSpecifier as error:
        raise ValueError(f"{text!r} is neither a version nor a version specifier") from error
    return text


def is_specifier(text: str) -> bool:
    """Say whether ``specifier`` accepts the text."""
    try:
        specifier(text)
    except ValueError:
        return False
    return True


def allows(spec: str, version: str) -> bool:
    """Say whether a version is one that a specifier, as ``specifier`` accepts it, allows."""
    text = "" if spec == "*" else spec if re.match(r"[<>=!~]", spec) else f"=={spec}"
    return SpecifierSet(text).contains(version, prereleases=True)


def is_exact(text: str) -> bool:
    """Say whether ``text`` names one version, which an address can be made of."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def slug(spec: str) -> str:
    """Make a specifier fit for a cell id: ``>=5.5.1`` is ``5.5.1``, ``*`` is ``any``."""
    return re.sub(r"[^a-z0-9.]+", "-", spec.lower()).strip("-.") or "any"


def values(raw: Any) -> Any:
    """Read an axis as written (a value, a table or a list of both) as a list of tables."""
    items = raw if isinstance(raw, list | tuple) else [raw]
    return [{"spec": item} if isinstance(item, str) else item for item in items]


def names(raw: Any) -> Any:
    """Read one name or a list of names as a list."""
    return [raw] if isinstance(raw, str) else raw
