"""Records as one self-contained HTML page: no script, nothing loaded, everything escaped.

A model's answers are untrusted. Jinja escapes every value, ``visible`` writes out invisible
characters, and the page's own Content-Security-Policy forbids scripts and loading anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from builder import console
from builder import text as report_text
from builder.record.check import Status
from builder.record.models import Record
from builder.report import view as report_view
from builder.report.bench import plots

SHORT = 100  # characters of a check's detail; a longer one unfolds
KINDS = {"boot": "boot", "ask": "checks", "rest": "not measured separately"}


def html(records: Sequence[Record]) -> str:
    """Return the page of all records, one after the other."""
    return _template().render(records=records)


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True)
    environment.filters.update(visible=report_text.visible, pretty=report_text.pretty,
                               one_line=report_text.one_line)
    environment.globals.update(
        {function.__name__: function for function in (
            report_view.verdict, report_view.title, report_view.place, report_view.summary,
            report_view.counts, report_view.timeline, report_view.worst_first,
            report_view.family, report_view.facts, report_view.when, report_view.unended,
            plots, console.seconds)},
        colour=_colour, css_class=_css_class, css=_css(), kinds=KINDS, SHORT=SHORT)
    return environment.from_string(_text("page.jinja"))


def _css() -> Markup:
    return Markup(_text("page.css"))  # noqa: S704 - the program's own file


def _text(name: str) -> str:
    return files("builder.report").joinpath(name).read_text(encoding="utf-8")


def _colour(record: Record) -> str:
    """Return the class of the verdict's colour."""
    if record.state != "finished":
        return record.state
    return "pass" if record.passed else "fail"


def _css_class(status: Status) -> str:
    return "none" if status is Status.NOT_APPLICABLE else status.value
