"""Damaged forms of whole files and answers, for fuzz tests: bytes, numbers, words and lines.

``SPARKYARD_FUZZ_EXAMPLES`` says how many forms each fuzz test reads, others in each run. Without it
they are 100, and always the same: ``SPARKYARD_FUZZ_EXAMPLES=100000 ./nox -s tests -- tests/fuzz``
looks for new ones.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import struct
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from types import FrameType

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from builder import cli
from builder.errors import SparkyardError

EXAMPLES = int(os.environ.get("SPARKYARD_FUZZ_EXAMPLES", "100"))
FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
HANGS_S = 120  # for a file of some kilobytes: an endless loop, not a slow machine
MOST_BYTES = 300 << 20
EDGES = (0, 1, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 32, 1 << 40, 1 << 63, (1 << 64) - 1)
# Where a change is made: mostly in the first or last bytes, where formats have their headers.
PLACES = st.one_of(*(st.integers(-size, size - 1) for size in (64, 512, 4096, 1 << 24)))
WORD = re.compile(r'"[^"\n]*"|[\w.+-]+|[\[\]{}]')
EDGE_WORDS = ("", '""', "-1", "0", "1e400", "nan", "-inf", "9" * 30, "9" * 5000,
              f'"{"9" * 5000}"', '"1.0\\n--x"', "1." + "9" * 5000,
              "true", "null", "[]", "{}", "[[]]", "[" * 3000, "{\"a\":" * 3000, '"\\u0000"',
              '"../../x"', '"/"', '"$(id)"', '"a\\nb"', '"\x1b[2J"', '"\u202ex"', '"--evil"',
              '"' + "x" * 5000 + '"', "1979-05-27T07:32:00Z", "0x10", "'", "=", "\n[x]\n",
              "http://[", '"http://["', "http://u:p@h:99999/x", "*", "&a", "\x00", "%s", "~=")
FREE_TEXT = st.text(max_size=20)
# Of any value that an answer in JSON may hold where another was expected.
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from((10**30, -1, "sha256:" + "0" * 64, "http://[", "9" * 5000)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner,
                                                                max_size=3), max_leaves=6)
NUMBERS = st.one_of(st.sampled_from(EDGES), st.integers(0, 1 << 16), st.integers(0, (1 << 64) - 1))


@st.composite
def damaged(draw: st.DrawFn, originals: Sequence[bytes]) -> bytes:
    """Draw one of the originals with one to eight changes."""
    data = bytearray(draw(st.sampled_from(list(originals))))
    for _ in range(draw(st.integers(1, 8))):
        at = draw(PLACES) % max(len(data), 1)
        match draw(st.sampled_from(("byte", "number", "number", "number", "cut", "remove"))):
            case "byte":
                data[at:at + 1] = bytes([draw(st.integers(0, 255))])
            case "cut":
                del data[at + 1:]
            case "remove":
                del data[at:at + draw(st.integers(1, 64))]
            case _:
                form = draw(st.sampled_from("HIQ"))
                size = struct.calcsize(form)
                at -= at % size
                data[at:at + size] = struct.pack(f"<{form}", draw(NUMBERS) % (1 << 8 * size))
    return bytes(data)


@st.composite
def reworded(draw: st.DrawFn, originals: Sequence[str]) -> str:
    """Draw one of the texts with one to six changes of a word, a line or a place."""
    text = draw(st.sampled_from(list(originals)))
    for _ in range(draw(st.integers(1, 6))):
        words = [found.span() for found in WORD.finditer(text)] or [(0, 0)]
        start, end = words[draw(st.integers(0, len(words) - 1))]
        lines = text.splitlines(keepends=True) or [""]
        number = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(("word", "word", "word", "text", "drop", "double", "cut"))):
            case "word":
                text = text[:start] + draw(st.sampled_from(EDGE_WORDS)) + text[end:]
            case "text":
                text = text[:start] + draw(FREE_TEXT) + text[end:]
            case "drop":
                text = "".join(lines[:number] + lines[number + 1:])
            case "double":
                text = "".join(lines[:number + 1] + lines[number:])
            case _:
                text = text[:start]
    return text


@st.composite
def regrown(draw: st.DrawFn, originals: Sequence[object]) -> bytes:
    """Draw one of the JSON values with one to three of its parts replaced, as bytes; or garbage."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=60) | st.sampled_from((b"", b"[" * 5000, b"null", b"NaN")))
    value = json.loads(json.dumps(draw(st.sampled_from(list(originals)))))
    for _ in range(draw(st.integers(1, 3))):
        value = _replaced(draw, value)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _replaced(draw: st.DrawFn, value: object) -> object:
    """Go down to some part of a value and put another one, or nothing, in its place."""
    keys = list(value) if isinstance(value, dict) else (
        list(range(len(value))) if isinstance(value, list) else [])
    if not keys or draw(st.integers(0, 4)) == 0:
        return draw(JSON_VALUES)
    key = draw(st.sampled_from(keys))
    assert isinstance(value, dict | list)
    if isinstance(value, dict) and draw(st.integers(0, 5)) == 0:
        del value[key]
    else:
        value[key] = _replaced(draw, value[key])
    return value


@contextmanager
def within_time() -> Iterator[None]:
    """Fail where the block does not end."""
    def hangs(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"the reader did not end within {HANGS_S} s")

    previous = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def within_bounds() -> Iterator[None]:
    """Fail where the block takes more memory, or time, than a small file can need."""
    with within_time():
        tracemalloc.start()
        try:
            yield
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < MOST_BYTES, f"{peak} bytes at once"


def run_quietly(*words: str) -> None:
    """Run a command line of ours; any error that is not one of ours comes out of it."""
    with within_time(), suppress(SparkyardError, SystemExit), redirect_stdout(io.StringIO()), \
            redirect_stderr(io.StringIO()):
        cli._execute(words)  # not run(), which turns a fault into words
