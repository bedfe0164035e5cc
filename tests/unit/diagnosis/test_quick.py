"""The plain piece of a pattern stands in every match, so that asking for it first loses nothing."""

from __future__ import annotations

import pytest

from builder.diagnosis.quick import QuickSearch, plain_text


@pytest.mark.parametrize(("pattern", "plain"), [
    ("CUDA out of memory", "CUDA out of memory"), (r"[\]\[x]{2}abcdef", "abcdef"),
    (r"libcudart\.so\.1[1-9]: cannot", "libcudart.so.1"), (r"first(?:[)|]|x\)) a", "first"),
    (r"size_k = \d+, is not divisible", ", is not divisible"), ("one thing|another", ""),
    (r"(?:first|second) piece of text", " piece of text"), (r"abcdefg?", "abcdef"),
    (r"some words{2,3} more", "some word"), (r"abc\w+x", ""), (r"[^]a]bcdefg", "bcdefg"),
    (r"\[\[gpu\]\] is (?:a (?:b|c\)) d) last", "[[gpu]] is "), (r"(?i)some words", ""),
    (r"some words+ follow", "some words"), (r"tab\there is text", "here is text"), ("", ""),
    (r"\[Errno 28\] No space", "[Errno 28] No space"), (r"with(?P<name>x*)out name", "out name"),
    (r"json {some words", "some words"), (r"{(x}some)? more", " more"),
    (r"\x41some words", "some words"), (r"\N{DASH}words", "words"), (r"(?#[)some words", "")])
def test_the_longest_piece_that_is_certain(pattern: str, plain: str) -> None:
    assert plain_text(pattern) == plain


def test_a_match_is_found_with_and_without_a_plain_piece() -> None:
    for pattern in ("^boom now$", "^boom (?:now|later)$", "^b..m"):
        match = QuickSearch.of(pattern).first("before\nboom now\nafter")
        assert match is not None
        assert match.start() == 7
        assert QuickSearch.of(pattern).first("a quiet log") is None


@pytest.mark.parametrize(("pattern", "text"), [
    ("json {some words", "json {some words"), (r"\x41bcdef", "Abcdef"), (r"{(x}bcdef)?{", "{{"),
    ("(?x) some # words (\nx", "somex"), ("(?i)ABCDEF", "abcdef"),
    (r"\N{LATIN SMALL LETTER A}bcdef", "abcdef")])
def test_no_match_is_lost_by_the_search_for_plain_text(pattern: str, text: str) -> None:
    """Found by fuzzing: a brace that counts nothing ended the program."""
    assert QuickSearch.of(pattern).first(text) is not None
