"""Cells, bases and images as the command line names them; mistakes are refused at once."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from builder.bases.facts import at_hand, of_image
from builder.binaries.facts import BaseFacts
from builder.engine.client import Engine
from builder.errors import EngineError, NetworkError, UsageError
from builder.matrix.cells import Cell, select


def cells_on(cells: Sequence[Cell], patterns: Sequence[str], base: str | None) -> Sequence[Cell]:
    """Return the cells that the patterns match; ``base`` chooses among them, as in ``build``.

    Raises UsageError where a pattern matches none, with the bases that its cells can have.
    """
    if base is None:
        return select(cells, patterns)
    for pattern in patterns:
        images = sorted({cell.image for cell in select(cells, [pattern])})
        if not any(cell.base_name == base and (fnmatchcase(cell.id, pattern)
                                               or fnmatchcase(cell.image, pattern))
                   for cell in cells):
            raise UsageError(f'no cell of "{pattern}" has the base {base}', where="--base",
                             next_step="; ".join(_may_have(cells, image) for image in images))
    return select(cells, patterns, {"base": base})


def any_image(reference: str, platform: str | None, cache: Path, bases: Collection[str]
              ) -> BaseFacts:
    """Return the facts of an image as a base; ``bases`` are the names that a typo may stand for.

    Raises UsageError, EngineError or NetworkError where it cannot be read.
    """
    known = f"the matrix has the bases {_listed(bases)}" if bases else ""
    try:
        engine = Engine.connect()
        typo = difflib.get_close_matches(reference, bases, n=1)
        if typo and engine.inspect(reference) is None:
            raise UsageError(f'no base and no local image is called "{reference}"',
                             where="--base", next_step=f'perhaps you meant "{typo[0]}"; {known}')
        return of_image(engine, at_hand(engine, reference, platform), cache, reference)
    except (EngineError, NetworkError) as error:
        error.next_step = "; ".join(filter(None, (error.next_step, known)))
        raise


def _may_have(cells: Sequence[Cell], image: str) -> str:
    return f"{image} can have {_listed({one.base_name for one in cells if one.image == image})}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
