"""Bytecode by a Python that is started for it: in order, reproducible, and never for ever."""

from __future__ import annotations

import importlib.util
import marshal
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import CodeType

import pytest
from bytecode_here import compiler_here

from builder import process
from builder.errors import EngineError
from builder.layers.bytecode import Module, PipedCompiler

PYTHON = platform.python_version()
HERE = (PYTHON, sys.executable)


def module(name: str, source: bytes) -> Module:
    return f"/opt/{name}.py", lambda: source


@contextmanager
def stand_in(code: str) -> Iterator[PipedCompiler]:
    """Give a compiler whose process is another program."""
    @contextmanager
    def start(_: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        with process.stream([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
            yield child
    compiler = PipedCompiler(PYTHON, start, sys.executable)
    try:
        yield compiler
    finally:
        compiler.close()


def test_modules_are_compiled_in_their_order_for_their_path() -> None:
    with compiler_here(*HERE) as compiler:
        one, other = compiler.compile([module("one", b"x = 1\n"), module("two", b"y = 2\n")])
    assert one[:4] == importlib.util.MAGIC_NUMBER
    assert one[4:8] == b"\x03\x00\x00\x00", "hash-based and checked (PEP 552)"
    assert one[8:16] == importlib.util.source_hash(b"x = 1\n")
    code = marshal.loads(other[16:])
    assert isinstance(code, CodeType)
    assert code.co_filename == "/opt/two.py"


def test_what_does_not_compile_is_left_out() -> None:
    with compiler_here(*HERE) as compiler:
        bad, good = compiler.compile([module("bad", b"print 'x'\n"), module("good", b"1\n")])
    assert bad == b""
    assert good


def test_the_bytes_do_not_depend_on_what_was_compiled_before() -> None:
    source = b"WORDS = {'a', 'b', 'c', 'd'}\ndef f(x, *, y=('a', 'b')):\n    return {x: y}\n"
    with compiler_here(*HERE) as compiler:
        (first,) = compiler.compile([module("m", source)])
        (again,) = compiler.compile([module("m", source)])
    assert first == again


def test_threads_have_a_process_each() -> None:
    modules = [module(f"m{number}", b"x = 1\n" * 2000) for number in range(30)]
    with compiler_here(*HERE) as compiler, ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(lambda: list(compiler.compile(modules))) for _ in range(2)]
        assert jobs[0].result() == jobs[1].result()


def test_another_python_than_the_bases_is_refused() -> None:
    with compiler_here("3.9.1", sys.executable) as compiler, \
            pytest.raises(EngineError, match=r"must be made by Python 3\.9\.1"):
        list(compiler.compile([module("m", b"")]))


def test_a_source_that_cannot_be_read_is_the_callers_error() -> None:
    def broken() -> bytes:
        raise ZeroDivisionError
    with compiler_here(*HERE) as compiler, pytest.raises(ZeroDivisionError):
        list(compiler.compile([module("m", b"x = 1\n"), ("/opt/b.py", broken)]))


@pytest.mark.parametrize(("code", "message"), [
    ("", "ended early"),
    ("import sys; sys.stdout.buffer.write(b'\\x00\\x00'); sys.stdout.flush()", "ended early"),
    (("import sys; sys.stdin.readline(); sys.stdout.buffer.write(b'\\xff\\xff\\xff\\xff'); "
     "sys.stdout.flush(); sys.stdin.read()"), "announced 4294967295 bytes"),
    (("import sys; sys.stdin.readline(); sys.stdout.buffer.write(b'\\x00\\x00\\x00\\x02hi'); "
     "sys.stdout.flush(); sys.stdin.read()"), "this is hi")],
    ids=["dies", "half a number", "endless", "another program"])
def test_a_process_that_misbehaves_is_one_error_and_no_hang(code: str, message: str) -> None:
    with stand_in(code) as compiler, pytest.raises(EngineError, match=message):
        list(compiler.compile([module("m", b"x = 1\n" * 100_000)]))
