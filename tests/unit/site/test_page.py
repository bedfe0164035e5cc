"""The pages: nothing foreign acts, failures stay, samples are marked, and an empty one says so."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser

from report_records import HOSTILE
from site_samples import BROKEN_NIGHTS, DOCUMENTED, hostile, sample, thirty_nights

from builder.diagnosis.catalogue import load
from builder.promotion.log import Entry
from builder.record.models import Record
from builder.record.reader import record_of
from builder.site.contents import Contents
from builder.site.evidence import gather
from builder.site.failures import failures
from builder.site.page import Site, Tag, pages, record_file, shown_cells
from builder.site.speeds import lines
from tests.unit.cells_for_tests import make_cell

ALLOWED_BYTES = 150_000


class Elements(HTMLParser):
    """Counts elements and keeps attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def site(records: Sequence[Record], **changes: object) -> Site:
    cells = shown_cells((), {}, gather(records), {})
    return Site(**{"made": "2026-11-22T04:00:00Z", "cells": cells, "records": records,  # type: ignore[arg-type]
                   "lines": lines(records), "published": (),
                   "failures": failures(load(), {}, records), **changes})


def index(records: Sequence[Record], **changes: object) -> Elements:
    return Elements(pages(site(records, **changes))["index.html"])


def test_thirty_nights_fit() -> None:
    made = pages(site(thirty_nights()))
    assert len(made["index.html"].encode()) < ALLOWED_BYTES
    assert len(made["failures.html"].encode()) < ALLOWED_BYTES
    assert {name for name in made if not name.startswith("records/")} == {
        "index.html", "failures.html", "badges/tf5.svg", "badges/cpu.svg", "badges/cpu-arm64.svg"}


def test_every_record_lies_beside_the_page_and_its_row_leads_to_it() -> None:
    made = pages(site([*thirty_nights(), hostile()]))
    links = [value for tag, name, value in Elements(made["index.html"]).attributes
             if (tag, name) == ("a", "href") and value.startswith("records/")]
    assert {name for name in made if name.startswith("records/")} == set(links)
    for record in (*thirty_nights(), hostile()):
        text = made[record_file(record)]
        assert text.isascii()
        assert record_of(json.loads(text), "record") == record


def test_a_failed_night_stays() -> None:
    page = index(thirty_nights())
    failed = [run for run in thirty_nights() if run.verdict == "fail"]
    assert len(failed) == 3
    for run in failed:
        assert run.digest[7:15] in page.text
        assert run.started[:10] in page.text
    assert page.text.count(DOCUMENTED.name) == 3
    assert "Earlier images (7, 2 with failures)" in page.text


def test_every_run_is_there_once_with_its_image() -> None:
    page = index(thirty_nights())
    runs = [value for _, name, value in page.attributes if name == "title"]
    for record in thirty_nights():
        assert runs.count(record.digest) == 1
        assert record.image_digest in runs


def test_samples_are_marked_and_verify_nothing() -> None:
    page = index(thirty_nights())
    count = len(thirty_nights())
    assert f"{count} of {count} records on this page are made up" in page.text
    assert "Not verified on GB10." in page.text
    assert "Verified on a GB10:" not in page.text
    measured = index([sample(1, "tf5", labels={})])
    assert "made up" not in measured.text
    assert "Verified on a GB10: tf5. Every other image is not verified on GB10" in measured.text


def test_hostile_text_is_shown_and_does_nothing() -> None:
    plain, page = index([sample(29, "cpu")]), index([hostile()])
    assert page.tags.count("script") == plain.tags.count("script") == 1
    assert not {"img", "base", "iframe", "object"} & set(page.tags)
    assert HOSTILE[:60] in page.text
    assert not [one for one in page.attributes if one[1].startswith("on") or
                ("javascript:" in one[2] and one[1] == "href")]
    assert "\u202e" not in page.text
    assert "\x1b" not in page.text


def test_an_empty_checkout_claims_nothing() -> None:
    page = index(())
    assert "There are no records yet, so nothing is claimed of any image." in page.text
    assert "No benchmark is on record." in page.text
    assert "Not verified on GB10." in page.text


def test_tables_have_captions_and_scopes_and_ids_are_unique() -> None:
    for text in pages(site(thirty_nights())).values():
        if "<html" not in text:
            continue
        page = Elements(text)
        assert page.tags.count("table") == page.tags.count("caption")
        scopes = [one for one in page.attributes if one[:2] == ("th", "scope")]
        assert len(scopes) == page.tags.count("th")
        ids = [value for _, name, value in page.attributes if name == "id"]
        assert len(ids) == len(set(ids))
        targets = [value[1:] for tag, name, value in page.attributes
                   if (tag, name) == ("a", "href") and value.startswith("#")]
        assert set(targets) <= set(ids)


def test_only_its_own_script_may_run() -> None:
    text = pages(site(()))["index.html"]
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy
    assert policy[1].startswith("default-src 'none'; ")
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/]{43}=';", policy[1])


def test_tags_and_cells_that_left_the_matrix_are_shown() -> None:
    cells = shown_cells((), {"cpu": Contents(None, "not locked")}, gather([sample(1, "cpu")]),
                        {"cpu": (Tag("cpu-unverified", "sha256:" + "7" * 64),)})
    page = index((), cells=cells)
    assert "tag cpu-unverified" in page.text
    assert "sha256:777777777777" in page.text
    assert "not locked" in page.text


def test_a_cell_that_must_fail_says_that_it_is_never_promoted() -> None:
    cell = make_cell().model_copy(update={"id": "cpu", "never_promote": "it must fail"})
    records = [sample(1, "cpu")]
    said = index(records, cells=shown_cells([cell], {}, gather(records), {})).text
    assert "No tag moves to this image: it must fail." in said
    assert "never promoted" not in index(records).text


def test_how_a_tag_moved_is_shown_newest_first_and_roll_backs_stand_out() -> None:
    entry = Entry(number=1, previous="", action="promote", tag="cpu", target="sha256:" + "1" * 64,
                  replaced="", records=(), time="2026-11-20T02:17:00Z", run="r")
    back = entry.model_copy(update={"number": 2, "action": "rollback", "reason": HOSTILE,
                                    "replaced": "sha256:" + "2" * 64})
    records = [sample(1, "cpu")]
    tag = Tag("cpu", entry.target, (entry, back))
    page = index(records, cells=shown_cells((), {}, gather(records), {"cpu": (tag,)}))
    assert "How the tag cpu moved (2, 1 back)" in page.text
    assert page.text.index("rolled back") < page.text.index("promoted")
    assert HOSTILE[:40] in page.text
    assert "How the tag" not in index(records).text


def test_a_model_that_only_failed_says_where_and_when() -> None:
    night = min(BROKEN_NIGHTS)
    records = [sample(night, "tf5")]
    assert f"{records[0].started[:10]}, sample; the newest of its runs" in index(records).text
