"""Whatever is named as a log is read within limits, or refused in one sentence."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest

from builder import limits
from builder.diagnosis import log_file
from builder.diagnosis.log_file import LogText, read_log
from builder.errors import UsageError


def test_a_file_becomes_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("INFO one\nERROR two\n")
    assert read_log(str(log)) == LogText(("INFO one", "ERROR two"))


@pytest.mark.parametrize("size", [40, 41, 4000])
def test_a_long_file_is_read_at_both_ends(tmp_path: Path, size: int,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "END_BYTES", 20)
    log = tmp_path / "log"
    log.write_bytes(b"begin" + b"x" * (size - 8) + b"end")
    read = read_log(str(log))
    assert read.skipped == size - 40
    assert read.lines[0].startswith("begin")
    assert read.lines[-1].endswith("end")


def test_a_packed_log_is_unpacked_from_a_file_and_from_a_stream(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = gzip.compress(b"INFO one\nERROR two\n")
    (tmp_path / "server.log.1.gz").write_bytes(raw)
    assert read_log(str(tmp_path / "server.log.1.gz")).lines == ("INFO one", "ERROR two")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert read_log("-").lines == ("INFO one", "ERROR two")


def test_a_packed_log_is_read_at_both_ends_and_within_limits(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_BYTES", 5 * limits.MB)
    monkeypatch.setattr(log_file, "END_BYTES", 100)
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"begin\n" + b"x" * 9 * limits.MB))
    read = read_log(str(tmp_path / "x.gz"))
    assert read.lines[0] == "begin"
    assert read.cut_off == "it is longer than 5 MB"
    (tmp_path / "y.gz").write_bytes(gzip.compress(b"a\0b"))
    with pytest.raises(UsageError, match="binary data"):
        read_log(str(tmp_path / "y.gz"))


def test_a_stream_is_read_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "END_BYTES", 100)
    monkeypatch.setattr(log_file, "CHUNK_BYTES", 10)
    raw = b"begin\n" + b"middle\n" * 1000 + b"end\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    read = read_log("-")
    assert (read.lines[0], read.lines[-1]) == ("begin", "end")
    assert len(raw) - 300 < read.skipped <= len(raw) - 200


def test_an_endless_stream_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_BYTES", 5 * limits.MB)
    with Path("/dev/zero").open("rb") as endless:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(endless))
        with pytest.raises(UsageError, match="binary data"):
            read_log("-")


def test_a_stream_that_goes_on_is_judged_by_what_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_S", 0.05)
    reader, writer = os.pipe()
    os.write(writer, b"INFO still here\n")
    with os.fdopen(reader, "rb") as stream:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
        read = read_log("-")
    os.close(writer)
    assert read.lines == ("INFO still here",)
    assert "did not end" in read.cut_off


def test_a_pipe_is_read_and_one_without_a_writer_does_not_hang(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"ERROR from a pipe\n")
    os.close(writer)
    assert read_log(f"/dev/fd/{reader}").lines == ("ERROR from a pipe",)
    os.close(reader)
    os.mkfifo(tmp_path / "pipe")
    link = tmp_path / "link"
    link.symlink_to("pipe")
    holder = os.open(tmp_path / "pipe", os.O_RDWR)  # a writer that never writes
    for path in (tmp_path / "pipe", link):
        with pytest.raises(UsageError, match="not a folder, device or named pipe"):
            read_log(str(path))
    os.close(holder)


def test_a_stream_is_announced(monkeypatch: pytest.MonkeyPatch,
                               capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"INFO x")))
    read_log("-")
    assert "reading standard input, for 120 s at most" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "words"), [
    ("/dev/zero", "not a folder, device"), ("/dev/full", "not a folder, device"),
    ("/proc", "not a folder, device"), ("/nowhere/at/all", "cannot be read")])
def test_what_is_no_file_is_refused(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_log(name)


@pytest.mark.parametrize(("data", "words"), [
    (b"", "is empty"), (b" \n\n", "is empty"), (b"\x7fELF\0\0", "binary data")])
def test_a_file_that_holds_no_text_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    log = tmp_path / "log"
    log.write_bytes(data)
    with pytest.raises(UsageError, match=words):
        read_log(str(log))


@pytest.mark.parametrize("line", [
    "INFO 06-12 09:13:40 [utils.py:299] ready", "Traceback (most recent call last):",
    "ValueError: x", "nvcc fatal : Value 'x'", "[26265.4] Memory cgroup out of memory: Killed",
    "(EngineCore pid=61) something", '2026-11-20 10:00:00,1 - x', '  File "x.py", line 9, in f',
    'INFO:     172.17.0.1:46668 - "POST /v1/chat/completions HTTP/1.1" 200 OK'])
def test_a_line_of_a_log_is_known(line: str) -> None:
    assert LogText(("something else", line)).looks_like_a_log


def test_prose_and_configuration_are_no_log() -> None:
    root = Path(__file__).parents[3]
    for name in ("LICENSE", "matrix.toml", "recipes/tiny-gemma4.toml"):
        assert not LogText(tuple((root / name).read_text().splitlines())).looks_like_a_log, name
