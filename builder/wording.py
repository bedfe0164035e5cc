"""What is wrong with a value, in the words of whoever wrote it, and what to write instead.

The models say what they accept in patterns, limits and types; their library words a violation for
programmers. Here each kind of violation has a sentence for people and an example.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

SHOWN = 60  # characters of a wrong value
LONGEST_WORD = 200  # a comparison costs the square of it
FORMS: Mapping[str, tuple[str, str]] = {  # a pattern of a model: what it accepts, and an example
    r"^#[0-9a-f]{6}$": ("a colour: # and six hexadecimal digits", "#c00000"),
    r"^([0-9a-f]{40})?$": ("the 40 hexadecimal digits of a commit, or empty", ""),
    r"^([0-9a-f]{64})?$": ("the 64 hexadecimal digits of a sha256, or empty", ""),
    r"^(\d{1,2}\.\d{1,2})?$": ("a version of two numbers, or empty", "13.0"),
    r"^(\d{1,3}(\.\d{1,3}){1,2})?$": ("a version of two or three numbers, or empty", "3.11.2"),
    r"^(\d{1,3}\.\d{1,3})?$": ("a version of two numbers, or empty", "2.36"),
    r"^2\.\d{1,2}$": ("a version of glibc", "2.36"),
    r"^3\.\d{1,2}$": ("a minor version of Python", "3.11"),
    r"^F\d+$": ("F and a number", "F12"),
    r"^[!-~]*$": ("plain ASCII without spaces", ""),
    r"^https?://[!-~]+$": ("a web address, without spaces", "https://huggingface.co/google"),
    r"^[0-9a-f]{40}$": ("the 40 hexadecimal digits of a commit", ""),
    r"^[0-9a-f]{64}$": ("the 64 hexadecimal digits of a sha256", ""),
    r"^[A-Z][A-Z0-9_]*$": ("the name of a variable, in capitals", "VLLM_LOGGING_LEVEL"),
    r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$": ("the name of a package", "flashinfer-python"),
    r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$": ("a repository: OWNER/NAME", "vllm-project/vllm"),
    r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$": ("a name of letters, digits, dots and dashes", "_moe_C"),
    r"^[A-Za-z_][A-Za-z0-9_]*$": ("the name of a variable", "CUDA_HOME"),
    r"^[\w.+!-]+\.tar(\.gz)?$": ("the file name of a source archive", "vllm-0.20.2.tar.gz"),
    r"^[\w.+!-]+\.tar\.gz$": ("the file name of a source archive", "vllm-0.20.2.tar.gz"),
    r"^[\w.+!-]+\.whl$": ("the file name of a wheel", "vllm-0.20.2-py3-none-any.whl"),
    r"^[\w.-]+/[\w.-]+$": ("a repository: OWNER/NAME", "google/gemma-4-31B-it"),
    r"^[\w./-]+$": ("a branch, a tag or a commit", "main"),
    r"^[\w][\w./-]*$": ("a path below the folder of the matrix", "keys/cosign.pub"),
    r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$": ("one line without control characters", ""),
    r"^[^\x00-\x1f]*$": ("one line without control characters", ""),
    r"^[a-z0-9](?:[a-z0-9+.-]|\{python\})+$": ("the name of a Debian package; {python} is filled",
                                               "python{python}-dev"),
    r"^[a-z0-9]+$": ("lower-case letters and digits", "121a"),
    r"^[a-z0-9]+([.-][a-z0-9]+)*$": ("lower-case words joined by single dots or dashes",
                                     "tf5-0.19"),
    r"^[a-z0-9][a-z0-9+.-]+$": ("the name of a Debian package", "libnuma1"),
    r"^[a-z]+$": ("lower-case letters", "bookworm"),
    r"^[a-z]{2,3}$": ("the code of a language", "en"),
    r"^\d[\w.+-]*$": ("a version", "0.32.0"),
    r"^\d{1,2}\.\d[af]?$": ("a GPU architecture as in TORCH_CUDA_ARCH_LIST", "12.1a"),
    r"^\d{1,2}\.\d{1,2}$": ("a version of two numbers", "13.0"),
    r"^\d{4}-\d\d-\d\d$": ("a date", "2026-11-22"),
    r"^sha256:[0-9a-f]{64}$": ("a digest: sha256: and 64 hexadecimal digits", ""),
    r"^sm_\d{2,3}$": ("a GPU architecture", "sm_121"),
}
TYPES = {
    "string": ("text in quotes", ""), "bool": ("true or false, without quotes", ""),
    "int": ("a whole number, without quotes", ""), "float": ("a number, without quotes", ""),
    "finite_number": ("a number that has an end", ""),
    "list": ("a list", 'write it in brackets: ["…"]'),
    "tuple": ("a list", 'write it in brackets: ["…"]'),
    "set": ("a list", 'write it in brackets: ["…"]'),
    "frozen_set": ("a list", 'write it in brackets: ["…"]'),
    "dict": ("a table", "write it as { key = value }, or under a heading in brackets"),
    "mapping": ("a table", "write it as { key = value }, or under a heading in brackets"),
    "model": ("a table", "write it as { key = value }, or under a heading in brackets"),
}
SIMPLE = {"missing": ("this key is missing", "add it"),
          "extra_forbidden": ("unknown key", "correct or remove it"),
          "none_required": ("must not be there", "remove it"),
          "recursion_loop": ("nested too deeply", "write fewer brackets in each other"),
          "json_invalid": ("not JSON", "write it as JSON")}
BOUNDS = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most"),
          "greater_than": ("gt", "more than"), "less_than": ("lt", "less than")}


class WrongValueError(ValueError):
    """A value that a validator of ours refuses, with what to write instead."""

    def __init__(self, what: str, next_step: str) -> None:
        """Keep both parts."""
        super().__init__(what)
        self.next_step = next_step


def violations(error: ValidationError) -> Iterator[tuple[tuple[int | str, ...], str, str]]:
    """Yield the place, what is wrong there and what to do, for everything that is wrong."""
    for item in error.errors(include_url=False):
        yield (item["loc"], *explain(item))


def first_violation(error: ValidationError) -> tuple[str, str]:
    """Return the dotted place of the first thing that is wrong, and what it is."""
    location, what, _ = next(violations(error))
    return ".".join(map(str, location)), what


def explain(item: ErrorDetails) -> tuple[str, str]:
    """Return what is wrong, and what to write instead; the latter may be empty."""
    kind, context, value = item["type"], item.get("ctx", {}), item.get("input")
    if kind in SIMPLE:
        return SIMPLE[kind]
    if kind == "union_tag_not_found":
        return f"the key {context['discriminator']} is missing", "add it"
    if kind == "union_tag_invalid":
        return _choice(str(context["expected_tags"]), context["tag"])
    if kind == "string_pattern_mismatch":
        return _form(str(context.get("pattern")), value)
    if kind in BOUNDS:
        name, word = BOUNDS[kind]
        return f"must be {word} {context[name]}, and is {shown(value)}", "name another number"
    if kind in ("literal_error", "enum"):
        return _choice(str(context.get("expected")), value)
    if kind in ("too_short", "string_too_short"):
        least = context["min_length"]
        return ("must not be empty" if least == 1 else f"needs at least {least} entries",
                "name at least one, or drop the key" if kind == "too_short" else "write a text")
    if kind in ("too_long", "string_too_long"):
        unit = "characters" if kind.startswith("string") else "entries"
        return f"has more than {context['max_length']} {unit}", "shorten it"
    wanted = next((name for name in TYPES if kind == name or re.fullmatch(
        rf"{name}_(type|parsing|parsing_size|from_float|sub_type|attributes_type)", kind)), None)
    if wanted:
        words, step = TYPES[wanted]
        return f"must be {words}, and is {shown(value)}", step or f"write {words}"
    what = item["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return what, getattr(context.get("error"), "next_step", "")


def shown(value: Any) -> str:
    """Return a value as TOML has it, where it is short; else what kind of thing it is."""
    if isinstance(value, dict):
        return "a table" if value else "an empty table"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    try:
        text = f'"{value}"' if isinstance(value, str) else str(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of thousands of digits"
    text = text.lower() if isinstance(value, bool) else text
    return text if len(text) <= SHOWN else text[:SHOWN - 1] + "…"


def _form(pattern: str, value: Any) -> tuple[str, str]:
    words, example = FORMS.get(pattern, (f"text of the form {pattern}", ""))
    return (f"{shown(value)} is not {words}",
            f'write it like "{example}"' if example else f"write {words}")


def _choice(expected: str, value: Any) -> tuple[str, str]:
    """Name the choices; ``expected`` is ``'1a', '1b' or '2'``, or a number."""
    choices = re.findall(r"'([^']*)'", expected)
    if not choices:
        return f"must be {expected}, and is {shown(value)}", f"write {expected}"
    near = close_to(value, choices) if isinstance(value, str) else ""
    return (f"{shown(value)} is not known here",
            (f'perhaps you meant "{near}"; ' if near else "")
            + "name " + ("one of " if choices[1:] else "") + ", ".join(f'"{one}"'
                                                                       for one in choices))


def close_to(word: str, known: Sequence[str]) -> str:
    """Return the known word that was probably meant, or nothing; long ones are not compared."""
    close = difflib.get_close_matches(word, known, n=1) if len(word) <= LONGEST_WORD else []
    return close[0] if close else ""
