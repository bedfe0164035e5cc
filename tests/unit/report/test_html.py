"""The page: every status and its reason, hostile text as text, nothing that loads or runs."""

from __future__ import annotations

import html as escape
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import tomli
from report_records import CHECKS, HOSTILE, a_bench, full_record, hostile_record

from builder.record.check import Status
from builder.report import html as report_html
from builder.report.bench import plots
from builder.report.html import html
from builder.report.view import NOT_GB10

ROOT = Path(__file__).parents[3]
MAY_BE = {"html", "head", "meta", "link", "title", "style", "body", "main", "article", "p",
          "header", "h1", "h2", "h3", "span", "small", "section", "div", "pre", "ol", "ul", "li",
          "i", "table", "colgroup", "col", "thead", "tbody", "tr", "th", "td", "details",
          "summary", "dl", "dt", "dd", "footer", "code", "a", "figure", "figcaption", "svg", "line",
          "rect", "circle"}


class Seen(HTMLParser):
    """All tags, all attributes, all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_status_is_shown_and_what_does_not_apply_says_why() -> None:
    text = Seen(html([full_record()])).text
    assert all(status.value in text for status in Status)
    assert "the recipe has no eyes" in text
    assert "1 fail, 1 flaky, 2 pass, 1 not applicable" in text


def test_what_failed_stands_first_and_is_unfolded() -> None:
    page = html([full_record()])
    names = re.findall(r'<th scope="row">(?:<span.*?</span> )?(.*?)</th>', page)
    assert names == ["single", "flaky one", "boot", "sum", "vision"]
    assert page.count("<details open>") == sum(
        check.status in (Status.FAIL, Status.FLAKY) for check in CHECKS)


@pytest.mark.parametrize(("where", "said"), [("cpu", True), ("emulated", True), ("gpu", True),
                                             ("gb10", False)])
def test_the_place_of_measure_is_said_first(where: str, said: bool) -> None:
    text = Seen(html([full_record(where=where)])).text
    body = text[text.index("measured: "):]
    assert body.startswith(f"measured: {where}")
    assert (NOT_GB10 in body) is said


def test_hostile_text_is_text() -> None:
    page = html([hostile_record()])
    seen = Seen(page)
    assert set(seen.tags) <= MAY_BE
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert seen.text.count("<script>window.hacked = 1</script>") >= 10
    assert "{{ 7*7 }}" in seen.text
    assert not re.search("[\x00\x07\x1b\u202e]", page)
    assert r"\x1b[2J" in seen.text
    assert escape.escape(HOSTILE)[:40] in page


def test_nothing_is_loaded_and_nothing_runs() -> None:
    seen = Seen(html([full_record(), hostile_record()]))
    loads = [value for name, value in seen.attributes
             if name in ("src", "srcset", "href", "xlink:href", "action", "data")]
    assert [value for value in loads if not value.startswith(("#", "data:,"))] == []
    policy = next(value for _, value in seen.attributes if "default-src" in value)
    assert policy.startswith("default-src 'none'")
    assert "script" not in policy
    css = (ROOT / "builder" / "report" / "page.css").read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import", css)


@pytest.mark.parametrize("state", ["running", "interrupted"])
def test_a_run_without_an_end_has_no_verdict(state: str) -> None:
    text = Seen(html([full_record(state=state, reason="Ctrl-C")])).text
    assert state.upper() in text
    assert "PASSED" not in text
    assert "FAILED" not in text
    assert "Ctrl-C" in text


def test_an_empty_record_is_a_page_too() -> None:
    text = Seen(html([full_record(checks=(), phases={}, labels={}, state="running")])).text
    assert "no checks" in text


def test_several_records_share_a_page_with_an_index() -> None:
    seen = Seen(html([full_record(), full_record(cell="tf5", where="emulated")]))
    targets = {value for name, value in seen.attributes if name == "href" and value[0] == "#"}
    assert {f"#{value}" for name, value in seen.attributes if name == "id"} == targets
    assert seen.text.count("measured: emulated") == 2  # in the index, and above its own part


def test_the_bars_fill_the_run() -> None:
    page = html([full_record()])
    widths = [float(found) for found in re.findall(r"left:[\d.]+%;width:([\d.]+)%", page)]
    assert sum(widths) == pytest.approx(100.0, abs=0.1)


def test_token_rates_are_plotted_and_say_where_they_are_from() -> None:
    drawn = list(plots(a_bench()))
    assert [plot.title for plot in drawn] == ["Decode, one request",
                                              "Prefill, all requests together",
                                              "Time to the first token"]
    assert [row.name for row in drawn[0].rows] == ["pp128 tg32 (c1)", "pp128 tg32 (c2)"]
    assert drawn[0].end == 100.0
    assert drawn[0].rows[0].samples == pytest.approx((0.41, 0.4182, 0.4018))
    assert drawn[0].rows[0].figure == "41 ± 2.0 %"
    seen = Seen(html([full_record(bench=a_bench())]))
    assert seen.tags.count("circle") == 3 * 6
    assert "on a CPU (two cores)" in seen.text
    assert "pp2048: not in a context of 1024 tokens" in seen.text


def test_a_record_without_a_benchmark_has_no_plot() -> None:
    assert "svg" not in Seen(html([full_record()])).tags


def test_the_files_of_the_page_are_installed_with_the_package() -> None:
    project = tomli.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["builder"]
    folder = Path(report_html.__file__).parents[1]
    installed = {path.name for pattern in patterns for path in folder.glob(pattern)}
    assert {"page.jinja", "page.css"} <= installed
