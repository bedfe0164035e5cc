"""The catalogue of known failures: ``issues/*.toml``, which comes with the program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from builder.config_file import read_toml, shape_problems
from builder.diagnosis.models import Catalogue
from builder.errors import ConfigError, Problem

FOLDER = Path(__file__).parent / "issues"


@cache
def load() -> Catalogue:
    """Return the catalogue of this installation."""
    return read_catalogue(sorted(FOLDER.glob("*.toml")))


def read_catalogue(files: Sequence[Path]) -> Catalogue:
    """Read files into one catalogue; raises ConfigError with every error of the first bad file."""
    parts = [_read(file) for file in files]
    merged = Catalogue(issue=tuple(issue for part in parts for issue in part.issue),
                       harmless=tuple(line for part in parts for line in part.harmless),
                       reported=tuple(entry for part in parts for entry in part.reported))
    names = [issue.name for issue in merged.issue] + [entry.name for entry in merged.reported]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError("the catalogue of known issues", [
            Problem(name, "two issues have this name", "rename one") for name in twice])
    return merged


def _read(file: Path) -> Catalogue:
    raw = read_toml(file, what="catalogue of known issues", next_step="")
    problems = shape_problems(Catalogue, raw)
    if problems:
        raise ConfigError(file.name, problems)
    return Catalogue.model_validate(raw)
