"""Markdown for GitHub: the verdict first, what failed next, nothing that acts."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt
from report_records import a_bench, full_record, hostile_record

from builder.record.check import Check, Status
from builder.report.markdown import TEXT, escaped, fenced, markdown

GOLDEN = """\
## FAILED: smoke cpu, level 2

**measured: cpu; not verified on GB10**

1 fail, 1 flaky, 2 pass, 1 not applicable, in 1 min 00 s.

```text
broken-tool-calls: tool calls break
  remedy:   a newer vLLM
```

| verdict | check | seen | time |
|---|---|---|--:|
| **FAIL** | tools&#58; single | <code>no JSON&#58; '{'</code> | 0.5 s |
| **FLAKY** | text&#58; flaky one | <code>right only when asked again</code> | 0.0 s |
| PASS | boot | <code>ready</code> | 50.0 s |
| PASS | text&#58; sum | <code>'4'</code> | 2.0 s |
| NOT APPLICABLE | vision | <code>the recipe has no eyes</code> | 0.0 s |

<details open><summary>FAIL: tools&#58; single</summary>
"""


def test_the_page_is_as_it_should_be() -> None:
    assert markdown([full_record()]).startswith(GOLDEN)


def test_every_request_and_answer_is_there_and_folded() -> None:
    page = markdown([full_record()])
    assert page.count("2 and 2?") == 3
    assert page.count("<details open>") == 2
    assert page.count("<details") == page.count("</details>")


def test_hostile_text_is_text() -> None:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown([hostile_record()]))
    inline = [child for token in tokens for child in (token.children or ())]
    assert {one.type for one in inline} <= {"text", "html_inline", "strong_open", "strong_close",
                                            "softbreak"}
    raw = [one.content for one in (*tokens, *inline) if one.type in ("html_inline", "html_block")]
    tags = {tag for text in raw for tag in re.findall(r"<[^>]*>", text)}
    assert tags == {"<code>", "</code>", "<details>", "<details open>", "</details>", "<summary>",
                    "</summary>"}
    blocks = [token.content for token in tokens if token.type == "fence"]
    assert sum("<script>window.hacked = 1</script>" in block for block in blocks) >= 8


def test_no_answer_mentions_anybody_outside_of_code() -> None:
    outside = re.sub(r"(?s)^(`{3,}).*?^\1$", "", markdown([hostile_record()]), flags=re.MULTILINE)
    assert "@" not in outside
    assert "http:" not in outside


def test_a_table_row_is_one_line() -> None:
    check = Check(check="a | b\nc", status=Status.FAIL, detail="x | y\nz")
    rows = [line for line in markdown([full_record(checks=(check,))]).splitlines()
            if "**FAIL**" in line]
    assert [row.replace("&#124;", "").count("|") for row in rows] == [5]


@pytest.mark.parametrize("text", ["a", "```", "````python\n```", "`" * 9, "\n```\n```\n"])
def test_a_fence_is_never_ended_by_its_text(text: str) -> None:
    tokens = MarkdownIt().parse(fenced(text))
    assert [token.type for token in tokens] == ["fence"]
    assert tokens[0].content == text + "\n"


def test_long_answers_are_cut_and_say_so() -> None:
    check = Check(check="long", status=Status.PASS, request="{}", answer="x" * (TEXT + 10))
    assert "10 more characters" in markdown([full_record(checks=(check,))])


def test_several_records_are_chapters() -> None:
    page = markdown([full_record(), full_record(cell="tf5", where="gb10")])
    assert re.findall("^## .*$", page, flags=re.MULTILINE) == [
        "## FAILED: smoke cpu, level 2", "## FAILED: smoke tf5, level 2"]
    assert page.count("not verified on GB10") == 1


def test_token_rates_say_where_they_were_measured() -> None:
    page = markdown([full_record(bench=a_bench())])
    rates = page[page.index("<summary>token rates"):]
    assert "measured on a CPU (two cores)" in rates
    assert "| Decode, one request | pp128 tg32 (c2) | 82 ± 2.0 % | tok/s |" in rates
    assert "left out: pp2048" in rates


def test_plain_words_stay_as_they_are() -> None:
    assert escaped("every extension loads, 92 of 93 (one is not used)") == (
        "every extension loads, 92 of 93 (one is not used)")
