"""The page of a record, opened in a real Chromium: it loads nothing, unfolds, and fits a phone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_records import HOSTILE, a_bench, full_record, hostile_record

from builder.report.html import html
from tests.integration.browser import NAMES, Browser, program, started

FIRST_CLOSED = "details:not([open]) > summary"
# The elements that stick out to the right.
TOO_WIDE = """[...document.querySelectorAll('body *')].filter(
    one => one.getBoundingClientRect().right > innerWidth + 0.5
  ).map(one => one.outerHTML.slice(0, 200))"""
# The lowest contrast of any text with what is behind it, as WCAG 2 counts it: [ratio, text].
CONTRAST = """(() => {
  const pen = document.createElement('canvas').getContext('2d');
  const over = (colours) => { pen.clearRect(0, 0, 1, 1);
    for (const one of colours) { pen.fillStyle = one; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3); };
  const light = (rgb) => { const [r, g, b] = rgb.map(v => v / 255).map(
    v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim(), own = walk.currentNode.parentElement;
    if (!text || !own.checkVisibility()) continue;
    const behind = [];
    for (let one = own; one; one = one.parentElement)
      behind.unshift(getComputedStyle(one).backgroundColor);
    const back = light(over(behind));
    const front = light(over([...behind, getComputedStyle(own).color]));
    found.push([(Math.max(back, front) + .05) / (Math.min(back, front) + .05), text.slice(0, 40)]);
  }
  return found.sort((a, b) => a[0] - b[0])[0];
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    name = program()
    if name is None:
        message = f"no browser: one of {', '.join(NAMES)} is needed"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with started(name, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both kinds on one page: all that a good record shows, and a hostile one."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html([full_record(bench=a_bench()), hostile_record()]), encoding="utf-8")
    return path


def test_the_browser_tells_of_what_a_page_loads_and_complains_of(browser: Browser,
                                                                 tmp_path: Path) -> None:
    """Else the tests below could not fail."""
    bad = tmp_path / "bad.html"
    bad.write_text('<!doctype html><script>window.hacked = 1</script>'
                   '<img src="http://127.0.0.1:9/x"><p style="width:3000px">wide</p>'
                   '<p style="color:#777;background:#888">faint</p>')
    browser.screen(390)
    browser.open(bad)
    assert browser.ask("window.hacked") == 1
    assert "http://127.0.0.1:9/x" in browser.requests
    assert browser.log
    assert browser.ask("document.documentElement.scrollWidth") > 390
    assert browser.ask(TOO_WIDE)
    assert browser.ask(CONTRAST)[0] < 1.5


def test_nothing_is_asked_of_anybody_and_nothing_hostile_runs(browser: Browser,
                                                              page: Path) -> None:
    browser.screen(1200)
    browser.open(page)
    assert browser.ask("document.querySelectorAll('script, img, iframe, base, object').length") == 0
    assert browser.ask("typeof window.hacked") == "undefined"
    said = browser.ask("[...document.querySelectorAll('pre')].map(one => one.textContent)")
    assert sum(HOSTILE[:60] in text for text in said) >= 8
    assert [one for one in browser.requests if not one.startswith("data:")] == [page.as_uri()]
    assert browser.log == []


def test_a_request_and_its_answer_unfold(browser: Browser, page: Path) -> None:
    browser.screen(1200)
    browser.open(page)
    browser.ask(f"void (window.mine = document.querySelector('{FIRST_CLOSED}').parentElement)")
    seen = "window.mine.querySelector('pre').checkVisibility()"
    assert browser.ask(f"[window.mine.open, {seen}]") == [False, False]
    browser.click(FIRST_CLOSED)
    assert browser.ask(f"[window.mine.open, {seen}]") == [True, True]
    assert "2 and 2?" in browser.ask("window.mine.innerText")


def test_token_rates_are_drawn_where_they_belong(browser: Browser, page: Path) -> None:
    browser.screen(1200)
    browser.open(page)
    at = browser.ask("""[...document.querySelector('svg').querySelectorAll('circle')].map(one => {
        const dot = one.getBoundingClientRect(), axis = one.parentElement.getBoundingClientRect();
        return (dot.left + dot.width / 2 - axis.left) / axis.width })""")
    assert at == pytest.approx([0.41, 0.4182, 0.4018], abs=0.005)
    heading = browser.ask("document.querySelector('.plots').parentElement.innerText")
    assert "on a CPU (two cores)" in heading.split("\n")[0]


def test_what_failed_is_read_without_a_click(browser: Browser, page: Path) -> None:
    browser.screen(1200)
    browser.open(page)
    text = browser.ask("document.querySelector('article').innerText")
    assert text.startswith("measured: cpu; not verified on GB10")
    assert "no JSON: '{'" in text
    assert text.index("no JSON: '{'") < text.index("ready")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1200])
def test_it_never_scrolls_sideways_and_is_legible(browser: Browser, page: Path, width: int,
                                                  scheme: str) -> None:
    browser.screen(width, scheme=scheme)
    browser.open(page)
    browser.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.ask(TOO_WIDE) == []
    assert browser.ask("document.documentElement.scrollWidth") <= width
    ratio, text = browser.ask(CONTRAST)
    assert ratio >= 4.5, text
    dark = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(16, 19, 25)") is (scheme == "dark")
