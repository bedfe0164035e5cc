"""The pages as HTML: everything foreign is escaped, and only the page's own script may run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from builder import console
from builder.locking.lock import LockedPatch
from builder.matrix.cells import Cell
from builder.promotion.log import Entry
from builder.record.models import Record
from builder.report import view as report_view
from builder.site import evidence as site_evidence
from builder.site.badge import badge, file_name
from builder.site.contents import Contents
from builder.site.evidence import Evidence, Tested, Verdict, verdict_of
from builder.site.failures import Failure
from builder.site.speeds import HEIGHT, Line
from builder.site.standing import standing
from builder.text import visible

MOVES = 30  # of a tag that are shown
OPEN = 3  # images of a cell that are shown without unfolding
SHORT = 19  # characters of a digest: sha256: and twelve


@dataclass(frozen=True)
class Tag:
    """A moving tag in the registry: its digest, and its moves by its log, oldest first."""

    name: str
    digest: str
    moves: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Shown:
    """One cell of the page; ``cell`` is None where the matrix does not know it any more."""

    name: str
    cell: Cell | None
    contents: Contents
    images: tuple[Tested, ...]
    tags: tuple[Tag, ...] = ()

    @property
    def never(self) -> str:
        """Return why no tag ever moves to this cell; empty where one may."""
        return self.cell.never_promote if self.cell else ""

    def standing(self, patch: LockedPatch) -> str:
        """Return what became of a patch of the lock."""
        runs = [run for image in self.images for run in image.runs]
        return standing(patch, self.cell, self.contents.lock, runs) if self.contents.lock else ""

    @property
    def verdict(self) -> Verdict:
        """Return the verdict of the newest image."""
        return self.images[0].verdict if self.images else verdict_of(())


@dataclass(frozen=True)
class Site:
    """All that the pages show; ``published`` are the rows of the roofline's table."""

    made: str
    cells: tuple[Shown, ...]
    records: Sequence[Record]
    lines: Sequence[Line]
    published: Sequence[Sequence[str]]
    failures: Sequence[Failure]

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models that ran on the newest image of any cell."""
        found = {model for one in self.cells for image in one.images[:1] for model in image.models}
        return tuple(sorted(found))

    @property
    def tested(self) -> tuple[Shown, ...]:
        """Return the cells that have records."""
        return tuple(one for one in self.cells if one.images)

    @property
    def verified(self) -> tuple[str, ...]:
        """Return the cells whose newest image a GB10 has shown to pass."""
        return tuple(one.name for one in self.cells if one.verdict.gb10)

    @property
    def samples(self) -> int:
        """Return how many records are made up."""
        return sum(map(site_evidence.is_sample, self.records))


def shown_cells(cells: Sequence[Cell], contents: Mapping[str, Contents],
                evidence: Mapping[str, Evidence],
                tags: Mapping[str, tuple[Tag, ...]]) -> tuple[Shown, ...]:
    """Return the cells of the matrix, then those that only records know; tested ones first."""
    known = {cell.id: cell for cell in cells}
    found = [Shown(name, known.get(name), contents.get(name, Contents(None, "not in the matrix")),
                   evidence[name].images if name in evidence else (), tags.get(name, ()))
             for name in [*known, *(name for name in evidence if name not in known)]]
    return tuple(sorted(found, key=lambda one: (not one.images, one.cell is None)))


def pages(site: Site) -> dict[str, str]:
    """Return every file of the site by its path."""
    return {"index.html": _render("page.jinja", site), "failures.html": _render(
        "failures.jinja", site),
        **{f"badges/{file_name(one.name)}.svg": badge(one.name, one.verdict)
           for one in site.cells},
        **{record_file(record): json.dumps(record.document(), indent=1) + "\n"
           for record in site.records}}


def record_file(record: Record) -> str:
    """Return where the page has a record; whoever doubts a row can read it, and promote by it."""
    return f"records/{record.digest[7:23]}.json"


def _render(name: str, site: Site) -> str:
    return _environment().get_template(name).render(site=site)


@cache
def _environment() -> Environment:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True, finalize=_finalize,
                              loader=FunctionLoader(_text))
    script = _text("page.js")
    environment.globals.update(
        {function.__name__: function for function in (
            site_evidence.is_sample, site_evidence.model_of, site_evidence.in_words,
            report_view.verdict, report_view.unended, report_view.when, report_view.versions,
            console.size, file_name, record_file)},
        css=Markup(_text("page.css")),  # noqa: S704 - the program's own files
        script=Markup(script),  # noqa: S704
        script_hash=Markup(base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()),  # noqa: S704
        PLACES=site_evidence.PLACES, OPEN=OPEN, MOVES=MOVES, SHORT=SHORT, HEIGHT=HEIGHT,
        NOT_GB10=report_view.NOT_GB10, outcome=_outcome, shown_failures=_worst)
    return environment


def _finalize(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _text(name: str) -> str:
    return files("builder.site").joinpath(name).read_text(encoding="utf-8")


def _outcome(run: Record) -> str:
    """Return the class of a run's colour."""
    return run.verdict


def _worst(run: Record) -> list[str]:
    """Return what failed in a run, and the failures that its log shows."""
    return [*(entry.name for entry in run.diagnosis if not entry.ruled_out),
            *(check.check for check in run.checks if check.status.value in ("fail", "flaky"))][:4]
