"""Records as GitHub-flavoured Markdown: for a job's summary page, a comment or a pull request.

A model's answers are shown as code, with every character that Markdown or GitHub would interpret
written as an entity or inside a fence that it cannot end: no mention, link, image or tag results.
Answers are cut, because GitHub refuses comments of more than 65,536 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from builder import console
from builder.record.bench import Bench
from builder.record.check import Check
from builder.record.models import Record
from builder.report.bench import plots
from builder.report.view import (
    BAD,
    facts,
    place,
    summary,
    timeline,
    title,
    unended,
    verdict,
    worst_first,
)
from builder.text import cut, one_line, pretty, visible

ACTIVE = re.compile(r"[&<>|`*_~\[\]\\@#$:]")  # what Markdown or GitHub would interpret
SHORT = 200  # characters of a check's detail in the table
TEXT = 1500  # characters of a request, an answer, a detail


def markdown(records: Sequence[Record]) -> str:
    """Return one document with a chapter for each record."""
    return "\n".join(line for record in records for line in (*_chapter(record), ""))


def escaped(text: str) -> str:
    """Return text in which nothing is markup."""
    return ACTIVE.sub(lambda match: f"&#{ord(match[0])};", text)


def fenced(text: str, language: str = "text") -> str:
    """Return a code block that ``text`` cannot end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _chapter(record: Record) -> Iterator[str]:
    yield f"## {verdict(record)}: {escaped(title(record))}"
    yield ""
    yield f"**{place(record)}**"
    yield ""
    yield f"{summary(record)}, in {console.seconds(record.seconds)}."
    if unended(record):
        yield f"\n{escaped(one_line(unended(record), TEXT))}"
    for entry in record.diagnosis:
        yield f"\n{fenced(visible(str(entry)))}"
    yield from ("", "| verdict | check | seen | time |", "|---|---|---|--:|")
    checks = worst_first(record.checks)
    yield from map(_row, checks)
    yield from (_evidence(check, opened=True) for check in checks if check.status in BAD)
    good = [_evidence(check) for check in checks if check.status not in BAD and check.request]
    if good:
        yield _folded(f"requests and answers of {len(good)} other checks", "\n".join(good))
    if record.bench:
        yield _folded("token rates", "\n".join(_rates(record.bench)))
    yield _folded("the run", "\n".join(_run(record)))


def _row(check: Check) -> str:
    word = check.status.value.upper()
    seen = escaped(one_line(check.detail, SHORT))
    return (f"| {f'**{word}**' if check.status in BAD else word} | {_name(check)} "
            f"| {seen and f'<code>{seen}</code>'} | {console.seconds(check.seconds)} |")


def _name(check: Check) -> str:
    return escaped(one_line(check.check, SHORT))


def _evidence(check: Check, *, opened: bool = False) -> str:
    parts = [fenced(cut(check.detail, TEXT))] if check.status in BAD and check.detail else []
    if check.request:
        parts += ["request", fenced(cut(pretty(check.request), TEXT), "json")]
        parts += ["answer", fenced(cut(check.answer, TEXT))]
    head = f"{check.status.value.upper()}: {_name(check)}"
    return _folded(head, "\n\n".join(parts), opened=opened)


def _folded(head: str, body: str, *, opened: bool = False) -> str:
    """Fold a body: the empty lines make GitHub read Markdown inside of the HTML."""
    start = f"\n<details{' open' if opened else ''}><summary>{head}</summary>"
    return f"{start}\n\n{body}\n\n</details>"


def _rates(bench: Bench) -> Iterator[str]:
    """Yield the figures of a benchmark, with the place where they were measured above them."""
    yield escaped(one_line(f"measured {bench.conditions.place}", TEXT))
    yield from ("", "| what | point | mean and spread | unit |", "|---|---|--:|---|")
    for plot in plots(bench):
        for row in plot.rows:
            yield f"| {plot.title} | {row.name} | {row.figure} | {plot.unit} |"
    yield from (f"\nleft out: {escaped(one_line(line, TEXT))}" for line in bench.left_out)


def _run(record: Record) -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    for label, value in facts(record):
        shown = [escaped(one_line(text, SHORT)) for text in (label, value)]
        yield f"| {shown[0]} | <code>{shown[1]}</code> |"
    yield from ("", "| part of the run | kind | from | for |", "|---|---|--:|--:|")
    for bar in timeline(record):
        times = f"{console.seconds(bar.start)} | {console.seconds(bar.seconds)}"
        yield f"| {escaped(one_line(bar.name, SHORT))} | {bar.kind} | {times} |"
