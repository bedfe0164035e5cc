"""Version specifiers as people write them: ``0.20.2``, ``>=5.5.1,<6`` or ``*``."""

from __future__ import annotations

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version


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
