"""The program inside the base that compiles: its protocol over two pipes, and checked bytecode."""

from __future__ import annotations

import importlib.util
import marshal
import platform
import struct
import subprocess
import sys

import pytest

from builder.layers import bytecode_worker
from builder.layers.bytecode_worker import bytecode


def worker(data: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-I", bytecode_worker.__file__], input=data,
                          capture_output=True, check=False)


def request(*modules: tuple[str, bytes]) -> bytes:
    return struct.pack(">I", len(modules)) + b"".join(
        struct.pack(">II", len(path.encode()), len(source)) + path.encode() + source
        for path, source in modules)


def answers(data: bytes) -> list[bytes]:
    found = []
    while data:
        size, = struct.unpack(">I", data[:4])
        found.append(data[4:4 + size])
        data = data[4 + size:]
    return found


def test_it_says_which_python_it_is_and_answers_in_order() -> None:
    done = worker(request(("/a.py", b"x = 1\n"), ("/bad.py", b"print 'x'\n"),
                          ("/\u00e9.py", b"y = 2\n")))
    assert done.returncode == 0, done.stderr
    hello, first, bad, last = answers(done.stdout)
    assert hello.decode() == f"{platform.python_version()} {sys.implementation.cache_tag}"
    assert first == bytecode(b"x = 1\n", "/a.py")
    assert bad == b""
    assert marshal.loads(last[16:]).co_filename == "/\u00e9.py"


def test_a_request_of_no_modules_is_only_greeted() -> None:
    assert len(answers(worker(request()).stdout)) == 1


@pytest.mark.parametrize("lost", [1, 5, 12])
def test_a_request_that_was_cut_off_ends_with_an_error(lost: int) -> None:
    done = worker(request(("/a.py", b"x = 1\n"))[:-lost])
    assert done.returncode == 1
    assert len(answers(done.stdout)) == 1, "the greeting, and nothing of the module"


def test_what_follows_the_request_is_not_read() -> None:
    done = worker(request(("/a.py", b"x = 1\n")) + b"for the next process")
    assert (done.returncode, len(answers(done.stdout))) == (0, 2)


def test_bytecode_is_checked_by_the_hash_of_its_source() -> None:
    made = bytecode(b"x = 1\n", "/a.py")
    assert made[:4] == importlib.util.MAGIC_NUMBER
    assert struct.unpack("<I", made[4:8]) == (3,)
    assert made[8:16] == importlib.util.source_hash(b"x = 1\n")
    assert made != bytecode(b"x = 2\n", "/a.py")


@pytest.mark.parametrize("source", [b"print 'x'", b"\x00", b"# coding: nonsense\n", b"\xff"])
def test_a_file_that_is_no_python_has_none(source: bytes) -> None:
    assert bytecode(source, "/template.py") == b""
