"""The public page in a real Chromium: thirty nights, wide and narrow, light and dark, no script.

axe-core judges it; it comes in a Python package, of which nothing else is used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_records import HOSTILE
from site_samples import hostile, kept, sample, thirty_nights

from builder import cli
from tests.integration.browser import NAMES, Browser, program, started
from tests.integration.foreign import packages
from tests.integration.test_report_browser import CONTRAST, TOO_WIDE

ROOT = Path(__file__).parents[2]
PAGES = ("index.html", "failures.html")
AXE_SHA256 = "84494fec757e4710dc751c8d7a636e457f4532f08f85c86dc9070133fbff53bc"  # 4.12.1
AXE_RUN = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(
    one => [one.id, one.nodes.slice(0, 3).map(node => node.html.slice(0, 160))]))"""
VISIBLE_ROWS = "[...document.querySelectorAll('[data-row]')].filter(one => one.checkVisibility())"


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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the page of thirty nights, of this checkout's locks, and of one hostile record."""
    tmp = tmp_path_factory.mktemp("site")
    records = kept(tmp / "records", thirty_nights())
    # Its cell names a folder; all else in it may be hostile.
    kept(records, [hostile().model_copy(update={"cell": "other",
                                                "started": "2026-11-22T00:00:00Z"}),
                   sample(29, "cpu-arm64", recipe="second", level="1a")])
    assert cli.run(["--matrix", str(ROOT / "matrix.toml"), "site", "--output", str(tmp / "page"),
                    "--records", str(records)]) == 0
    return tmp / "page"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the page of this machine's own records, none of them a sample."""
    page = tmp_path_factory.mktemp("own") / "page"
    assert cli.run(["--matrix", str(ROOT / "matrix.toml"), "site", "--output", str(page)]) == 0
    return page


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the source of axe-core."""
    folder = packages("axe.txt", tmp_path_factory.mktemp("axe") / "package")
    source = (folder / "axe_playwright_python" / "axe.min.js").read_bytes()
    assert hashlib.sha256(source).hexdigest() == AXE_SHA256
    return source.decode()


def promised(browser: Browser, expression: str) -> Any:
    """Return what a promise of the page comes to."""
    said = browser.send("Runtime.evaluate", expression=expression, returnByValue=True,
                        awaitPromise=True)
    assert "exceptionDetails" not in said, said["exceptionDetails"]
    return said["result"].get("value")


def scripts(browser: Browser, *, on: bool) -> None:
    browser.send("Emulation.setScriptExecutionDisabled", value=not on)


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (390, "dark"), (1200, "light"),
                                               (1200, "dark")])
@pytest.mark.parametrize("page", PAGES)
def test_it_never_scrolls_sideways_and_is_legible(browser: Browser, folder: Path, page: str,
                                                  width: int, scheme: str) -> None:
    browser.screen(width, scheme=scheme)
    browser.open(folder / page)
    assert browser.log == []
    browser.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.ask(TOO_WIDE) == []
    assert browser.ask("document.documentElement.scrollWidth") <= width
    ratio, text = browser.ask(CONTRAST)
    assert ratio >= 4.5, text
    assert [one for one in browser.requests if not one.startswith("data:")] == [
        (folder / page).as_uri()]
    assert browser.ask("typeof window.hacked") == "undefined"


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1200, "dark")])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing(browser: Browser, folder: Path, axe: str, page: str, width: int,
                           scheme: str) -> None:
    browser.screen(width, scheme=scheme)
    browser.open(folder / page)
    browser.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    browser.ask(axe + "\n;void 0")
    assert promised(browser, AXE_RUN) == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1200, "dark")])
def test_the_page_of_this_machines_own_records(browser: Browser, own: Path, axe: str, width: int,
                                               scheme: str) -> None:
    """In CI these are of the image that was built and asked before the tests."""
    assert (own / "index.html").stat().st_size < 150_000
    browser.screen(width, scheme=scheme)
    browser.open(own / "index.html")
    browser.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.ask(TOO_WIDE) == []
    assert browser.ask("document.documentElement.scrollWidth") <= width
    ratio, text = browser.ask(CONTRAST)
    assert ratio >= 4.5, text
    browser.ask(axe + "\n;void 0")
    assert promised(browser, AXE_RUN) == []


def test_a_row_leads_to_its_record(browser: Browser, folder: Path) -> None:
    browser.screen(1200)
    browser.open(folder / "index.html")
    links = browser.ask("[...document.querySelectorAll('a[href^=records]')]"
                        ".map(one => one.getAttribute('href'))")
    assert links
    assert all((folder / link).is_file() for link in links)


def test_without_scripts_all_of_it_is_there(browser: Browser, folder: Path) -> None:
    browser.screen(390)
    scripts(browser, on=False)
    try:
        browser.open(folder / "index.html")
        text = browser.ask("document.body.innerText")
        assert not browser.ask("document.getElementById('search').checkVisibility()")
    finally:
        scripts(browser, on=True)
    assert "not verified on GB10" in text
    assert "Samples." in text
    assert HOSTILE[:60] in text
    assert "failed" in text


def test_the_search_finds_old_nights_and_says_how_many(browser: Browser, folder: Path) -> None:
    browser.screen(1200)
    browser.open(folder / "index.html")
    everything = browser.ask(f"{VISIBLE_ROWS}.length")
    browser.ask("document.getElementById('q').focus()")
    browser.send("Input.insertText", text="tf5 failed 2026-10-29")
    found = browser.ask(f"{VISIBLE_ROWS}.map(one => one.innerText)")
    assert len(found) == 1
    assert "tools: single" in found[0]
    assert browser.ask("document.getElementById('found').textContent").startswith("1 of ")
    browser.ask("document.getElementById('q').value = ''")
    browser.ask("void document.getElementById('q').dispatchEvent(new Event('input'))")
    assert browser.ask(f"{VISIBLE_ROWS}.length") >= everything


def test_the_keyboard_reaches_everything_and_shows_where_it_is(browser: Browser, folder: Path
                                                               ) -> None:
    browser.screen(1200)
    browser.open(folder / "index.html")
    seen = []
    for _ in range(12):
        for kind in ("keyDown", "keyUp"):
            browser.send("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab",
                         windowsVirtualKeyCode=9)
        seen.append(browser.ask("""(one => [one.innerText || one.id,
            one.getBoundingClientRect().left >= 0,
            getComputedStyle(one).outlineStyle])(document.activeElement)"""))
    assert [text for text, _, _ in seen[:7]] == [
        "Skip to the content", "Sparkyard", "Models and images", "Images", "Speeds",
        "Known failures", "q"]
    assert all(inside and outline != "none" for _, inside, outline in seen)
