"""What a model wrote, made fit to be shown."""

from __future__ import annotations

import json

import pytest

from builder.text import cut, cut_line, one_line, pretty, quoted, redact, unbroken, visible


@pytest.mark.parametrize("text", [
    "plain\tand\nlines", "Danke schön", "こんにちは 👋", "👩‍👩‍👧 می‌خواهم", "\ufffd\ufffd",
    "a\u00a0b"])
def test_what_can_be_read_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(("text", "shown"), [
    ("\x1b[2J", r"\x1b[2J"), ("a\rb", r"a\rb"), ("\u202egnp", r"\u202egnp"), ("\x00", r"\x00"),
    ("\ud800", r"\ud800"), ("\ufeff", r"\ufeff"), ("\U000e0041", r"\U000e0041"),
    ("\uffff", r"\uffff"), ("\x85\x9b", r"\x85\x9b")])
def test_what_nobody_sees_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_one_line_is_one_line_and_says_that_it_is_cut() -> None:
    assert one_line("a\n  b\tc\u2028d", 80) == "a b c d"
    assert one_line("abcdef", 3) == "abc …"


@pytest.mark.parametrize(("text", "shown"), [
    ("", "nothing"), (" \n", "nothing"), ("a\nb", '"a b"'), ("x" * 99, '"' + "x" * 20 + ' …"'),
    ("\x1b[2J a text that is long enough", '"\\x1b[2J a text that  …"'),
    (bytes(range(256)).decode("utf-8", "replace"), "binary data"), ("こんにちは", '"こんにちは"')])
def test_foreign_text_in_a_sentence(text: str, shown: str) -> None:
    assert quoted(text, 20) == shown


def test_a_cut_line_keeps_its_spaces() -> None:
    assert cut_line("  a  b", 80) == "  a  b"
    assert cut_line("abc", 2) == "ab …"


def test_a_cut_says_how_much_is_missing() -> None:
    assert cut("x" * 1010, 10) == "x" * 10 + "\n… 1,000 more characters: the record has all of it"


def test_requests_have_a_line_for_each_key() -> None:
    assert pretty('{"a": [1, "ü"]}') == '{\n  "a": [\n    1,\n    "ü"\n  ]\n}'


@pytest.mark.parametrize("text", ["not JSON", "42", '"word"', "{", "[" * 100_000, "9" * 5000, ""])
def test_what_is_no_document_stays_as_it_is(text: str) -> None:
    assert pretty(text) == text


def test_a_picture_is_cut() -> None:
    request = json.dumps({"url": "data:image/png;base64," + "iVBORw0KGgo+/" * 1000 + "=="})
    assert pretty(request) == '{\n  "url": "data:image/png;base64,… 13,002 characters"\n}'


@pytest.mark.parametrize(("text", "shown"), [
    ("http://me:pw@host/x", "http://***@host/x"),
    ("http://me:p@w@host/x", "http://***@host/x"),
    ("https://token@host", "https://***@host"),
    ("https://host/path@v1", "https://host/path@v1"),
    ("https://h/x?access_token=abc&y=1", "https://h/x?access_token=***&y=1"),
    ("https://h/x?X-Amz-Signature=abc", "https://h/x?X-Amz-Signature=***"),
    ("serve --api-key sk-0123456789", "serve --api-key ***"),
    ("--api-key='sk-0123456789' x", "--api-key='***' x"),
    ("--api-key stands in the list", "--api-key stands in the list"),
    ("--api-key-file /home/ann/key-2026", "--api-key-file /home/ann/key-2026"),
    ("token hf_" + "aB3" * 11 + ".", "token hf_***."),
    ("hf_overrides and hf_config", "hf_overrides and hf_config"),
    ("https://h.example/x?sv=1&sig=aB%2b&e=2", "https://h.example/x?sv=1&sig=***&e=2"),
    ("https://h/x?signal=abc", "https://h/x?signal=abc"),
    ("Authorization: Bearer eyJhbGciOi.x-y", "Authorization: Bearer ***"),
    ("{'Authorization': 'Basic dXNlcjpwdw=='}", "{'Authorization': 'Basic ***'}"),
    ('-H "Authorization: Bearer $(cat key)"', '-H "Authorization: Bearer $(cat key)"'),
    ("args: {'api_key': ['sk-first', 'second'], 'port': 1}", "args: {'api_key': [***], 'port': 1}"),
    ("--hf-token hq0123456789", "--hf-token ***"),
    ("--hf-token-file /home/ann/k1", "--hf-token-file /home/ann/k1"),
    ("ghp_" + "aB3" * 12, "ghp_***"), ("HF_TOKEN=abc12345678 x", "HF_TOKEN=*** x"),
    ("the line VLLM_API_KEY=... of", "the line VLLM_API_KEY=... of"),
    ("max_tokens=2048 tokenizer=a/gemma-4-26B", "max_tokens=2048 tokenizer=a/gemma-4-26B"),
    ("sed s/^VLLM_API_KEY=// '/k/key-0123456789'", "sed s/^VLLM_API_KEY=// '/k/key-0123456789'"),
    ("https://h/x?a?token=abc", "https://h/x?a?token=***"),
    ("see x?sig='a'?token=abc", "see x?sig='a'?token=***"),
    ("?next=/x?token=abc&sig=b", "?next=/x?token=***&sig=***"),
    ("https://h/x?token= and y", "https://h/x?token= and y"),
    ("token?x=abc&y=1", "token?x=abc&y=1"),
    ("args: {'api_key': ['sk-first', 'seco", "args: {'api_key': [***]"),
    ("--api-key k1" + "x" * 9000 + " y", "--api-key *** y"),
    ("A_TOKEN=k1" + "x" * 9000 + " y", "A_TOKEN=*** y"),
    ("mail me@host", "mail me@host")])
def test_what_opens_a_door_is_left_out_of_addresses(text: str, shown: str) -> None:
    assert redact(text, {}) == shown


@pytest.mark.parametrize("piece", [
    "ATOKEN=", "--api-key=", "api_key=[", "?key", "?", "&key", "key?token", "?" * 195 + "key= ",
    "?key" * 50 + "= ", "A_TOKEN=a,", "'", "a://"])
def test_a_long_line_is_read_in_steps_that_grow_with_it(piece: str) -> None:
    """A time that grew with its square would be minutes for each of these."""
    text = piece * (400_000 // len(piece))
    assert redact(text + "\n--api-key k-1234567", {}).endswith("--api-key ***")


def test_values_of_secret_variables_are_left_out() -> None:
    environ = {"HF_TOKEN": "hf_12345678", "HF_TOKEN_2": "hf_123456789", "USER_NAME": "somebody",
               "API_KEY": "short"}
    text = "hf_12345678 hf_123456789 somebody short"
    assert redact(text, environ) == "*** *** somebody short"


def test_line_ends_are_written_out() -> None:
    assert unbroken("a\nb\r\u2028c\x85") == "a\\nb\\r\\u2028c\\x85"
    assert unbroken("a\tb ü") == "a\tb ü"
