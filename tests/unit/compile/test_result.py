"""What a compile left: read whole, CMake's own tests apart, and a missing one named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.compile.result import read_lines, read_result
from builder.errors import EngineError, VerdictError


def made(name: str, memory: int = 1) -> dict[str, object]:
    return {"object": name, "seconds": 2.0, "cpu_seconds": 1.5, "peak_memory": memory, "status": 0}


def test_times_and_memory_are_of_the_objects(tmp_path: Path) -> None:
    objects = [made("CMakeFiles/_C.dir/a.cu.o", 7), made("CMakeFiles/_C.dir/b.cu.o", 9),
               made("CMakeFiles/cmTC_3570c.dir/CMakeCUDACompilerABI.cu.o", 99), made("")]
    (tmp_path / "result.json").write_text(json.dumps(
        {"status": "complete", "objects": objects, "cache_hits": 1, "cache_misses": 1}))
    result = read_result(tmp_path)
    assert (len(result.made), result.cpu_seconds, result.peak_memory) == (2, 3.0, 9)


@pytest.mark.parametrize("text", ["", "[]", '{"status": 1}', '{"unknown": true}'])
def test_a_result_that_cannot_be_read_is_an_error_of_the_engine(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(EngineError, match="without a result"):
        read_result(tmp_path)


def test_no_result_at_all(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="without a result"):
        read_result(tmp_path)


def test_a_link_that_a_build_left_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    folder = tmp_path / "result"
    (folder / "files").mkdir(parents=True)
    (folder / "result.json").write_text('{"status": "complete"}')
    assert read_result(folder).status == "complete"
    (folder / "files" / "a.so").symlink_to(tmp_path / "theirs")
    with pytest.raises(VerdictError, match="left a symbolic link") as caught:
        read_result(folder)
    assert caught.value.where == "files/a.so"


def test_of_a_log_that_is_very_long_both_ends_are_read(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_text("first\n" + "x\n" * 1000 + "last\n")
    assert len(read_lines(log)) == 1002
    monkeypatch.setattr("builder.compile.result.LOG_BYTES", 100)
    lines = read_lines(log)
    assert (lines[0], lines[-1]) == ("first", "last")
    assert sum(map(len, lines)) < 100
