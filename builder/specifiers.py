"""Version specifiers as people write them: ``0.20.2``, ``>=5.5.1,<6`` or ``*``.

The one reading of them for the matrix, recipes and known issues: a plain version means exactly
that one, ``*`` any, and pre-releases count like every other version.
"""

from __future__ import annotations

import re

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from builder.wording import WrongValueError

OPERATOR = re.compile(r"[<>=!~]")
ANY = "*"


def specifier(text: str) -> str:
    """Accept ``0.20.2`` (exactly that), ``>=5.5.1,<6`` or ``*`` (whatever the others allow).

    Raises ValueError for anything else.
    """
    try:
        for part in _parse(text or "empty"):
            if part.operator != "===":
                Version(part.version.removesuffix(".*"))
    except ValueError as error:  # no specifier, or a number of more digits than Python parses
        raise WrongValueError(f"{text!r} is neither a version nor a version specifier",
                              'write it like "0.20.2" or ">=0.20,<0.22"') from error
    return text


def is_specifier(text: str) -> bool:
    """Say whether ``specifier`` accepts the text."""
    try:
        specifier(text)
    except ValueError:
        return False
    return True


def allows(spec: str, version: str) -> bool:
    """Say whether ``spec``, as ``specifier`` accepts it, allows a version.

    What is not a single version (``>=5.5.1``, an unknown one) is never allowed by a specifier.
    """
    return is_exact(version) and _parse(spec).contains(version, prereleases=True)


def is_range(text: str) -> bool:
    """Say whether a specifier leaves a choice: ``>=0.32``, but neither ``0.32.0`` nor ``*``."""
    return text != ANY and not is_exact(text.removeprefix("=="))


def is_impossible(spec: str) -> bool:
    """Say whether no version can be in a specifier: ``>=2,<1``. What is not certain is false."""
    lower: tuple[Version, bool] | None = None  # the bound, and whether it is out itself
    upper: tuple[Version, bool] | None = None
    exact: list[str] = []
    for part in _parse(spec):
        if part.operator == "==" and not part.version.endswith(".*"):
            exact.append(part.version)
        elif part.operator in (">=", ">", "~="):
            bound = (Version(part.version), part.operator == ">")
            lower = max(lower, bound) if lower else bound
        elif part.operator in ("<", "<="):
            bound = (Version(part.version), part.operator == "<=")  # the smaller is stricter
            upper = min(upper, bound) if upper else bound
    if exact:
        return not all(allows(spec, version) for version in exact)
    if lower is None or upper is None:
        return False
    return lower[0] > upper[0] or (lower[0] == upper[0] and (lower[1] or not upper[1]))


def is_exact(text: str) -> bool:
    """Say whether ``text`` names one version, with no space or line end around it."""
    try:
        Version(text)
    except ValueError:  # InvalidVersion, or a number of more digits than Python parses
        return False
    return text == text.strip()


def requirement(package: str, spec: str) -> str:
    """Return the requirement of a package in a specifier's versions: ``vllm==0.20.2``."""
    if spec == ANY:
        return package
    return package + (spec if OPERATOR.match(spec) else f"=={spec}")


def slug(spec: str) -> str:
    """Make a specifier fit for a cell id: ``>=5.5.1`` is ``5.5.1``, ``*`` is ``any``."""
    return re.sub(r"[^a-z0-9.]+", "-", spec.lower()).strip("-.") or "any"


def _parse(spec: str) -> SpecifierSet:
    if spec in ("", ANY):
        return SpecifierSet()
    return SpecifierSet(spec if OPERATOR.match(spec) else f"=={spec}")
