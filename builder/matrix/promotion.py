"""What an image must have shown before its moving tag points at it: level, hardware, recipes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from builder.model import Frozen, Name

Hardware = Literal["gb10", "gpu", "cpu", "emulated"]
SmokeLevel = Literal["1a", "1b", "2"]
LEVELS: tuple[SmokeLevel, ...] = ("1a", "1b", "2")
GPU_HARDWARE = {"sm_121": "gb10"}  # of an image's ``gpu``: what alone is evidence for its own tag


class Requirement(Frozen):
    """The records that an image needs: a level or a higher one, on hardware that counts.

    With ``recipes``, each of them needs a record of its own; without, one record is enough.
    """

    level: SmokeLevel
    hardware: tuple[Hardware, ...] = Field(min_length=1)
    recipes: tuple[Name, ...] = ()


class Retention(Frozen):
    """How long the registry keeps an image that nothing needs; what something needs stays."""

    days: Annotated[int, Field(ge=0, le=36_500)] = 90


class IgnoredRecord(Frozen):
    """What does not count, and why: a record that says fail, or the note of records lost."""

    record: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    reason: str = Field(min_length=1)


class Promotion(Requirement):
    """The policy of a moving tag; ``unverified`` that of ``<cell>-unverified``, where it has one.

    ``ignored`` are records that say fail, and losses of records, that do not count. With
    ``keys``, public keys of cosign beside ``matrix.toml``, a record that says pass counts only if
    one of them signed it.
    """

    unverified: Requirement | None = None
    ignored: tuple[IgnoredRecord, ...] = ()
    keys: tuple[Annotated[str, Field(pattern=r"^[\w][\w./-]*$")], ...] = ()
