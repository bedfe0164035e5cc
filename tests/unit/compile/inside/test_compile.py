"""The step inside the container: sources unpacked, patched and emptied; objects chosen."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builder.compile.inside import compile as inside

FILES = {"CMakeLists.txt": "project(x)", "cmake/external_projects/a.cmake": "fetch()",
         "csrc/a.cu": "old", "csrc/gone.cu": "x"}


def archive(path: Path, top: str, files: dict[str, str]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    for name in ("ORDER", "OUT", "SRC", "BUILD"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(inside, name, tmp_path / name)
    monkeypatch.setattr(inside, "LOG", tmp_path / "OUT" / "log.txt")
    archive(tmp_path / "ORDER/source.tar.gz", "vllm-1", FILES)
    archive(tmp_path / "ORDER/e.tar.gz", "flashinfer-1", {
        "3rdparty/cutlass/include/x.h": "x", "other/y.h": "y"})
    (tmp_path / "ORDER/new").write_text("new")
    monkeypatch.delenv("CUTLASS_DIR", raising=False)
    return {"package": "vllm", "source": "source.tar.gz", "definitions": {},
            "changes": {"csrc/a.cu": "new", "csrc/gone.cu": ""},
            "exclude": ["cmake/external_projects/*.cmake"],
            "external": {"cutlass": {"archive": "e.tar.gz", "path": "3rdparty/cutlass",
                                     "variables": {"CUTLASS_DIR": "", "INC": "include"}}}}


def test_sources_are_patched_and_what_is_left_out_is_emptied(order: dict[str, Any],
                                                             tmp_path: Path) -> None:
    source = inside._sources(order)
    assert (source / "csrc/a.cu").read_text() == "new"
    assert not (source / "csrc/gone.cu").exists()
    assert (source / "cmake/external_projects/a.cmake").read_text() == ""
    assert (source / "CMakeLists.txt").read_text() == "project(x)"
    cutlass = tmp_path / "SRC/cutlass"
    assert [path.name for path in cutlass.rglob("*.h")] == ["x.h"]
    assert order["definitions"] == {"CUTLASS_DIR": str(cutlass), "INC": f"{cutlass}/include"}


def test_a_step_that_fails_keeps_its_words(order: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(inside.FailedStep) as failed:
        inside._logged("configure", ["sh", "-c", "echo CMake Error at x; exit 1"], tmp_path)
    assert failed.value.step == "configure"
    assert "CMake Error at x" in inside.LOG.read_text()


def test_a_steps_progress_is_said_at_once_and_is_no_part_of_the_log(
        order: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inside._logged("command", ["sh", "-c", "echo one; echo '@[1/2 0.1] a.cu'; echo two"], tmp_path)
    assert inside.LOG.read_text() == "one\ntwo\n"
    assert capsys.readouterr().out == "@step command\n@[1/2 0.1] a.cu\n"


@pytest.mark.parametrize("status", [0, 1])
def test_a_command_that_drives_ninja_leaves_its_facts(
        order: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("FACTS", str(tmp_path / "facts"))
    attempts = [{"jobs": 2, "status": status, "killed": bool(status), "killed_objects": []}]
    text = json.dumps({"attempts": attempts, "available_memory": 7})
    asked = order | {"system": "command", "cross": True,
                     "command": ["sh", "-c", f"echo '{text}' > $FACTS; exit {status}"]}
    if status == 0:
        facts = inside._build(asked, tmp_path)
    else:
        with pytest.raises(inside.FailedStep) as failed:
            inside._build(asked, tmp_path)
        facts = failed.value.facts
    assert (facts["attempts"], facts["available_memory"]) == (attempts, 7)


def test_a_plain_command_has_no_facts(order: dict[str, Any], tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTS", str(tmp_path / "none"))
    asked = order | {"system": "command", "cross": True, "command": ["true"]}
    assert inside._build(asked, tmp_path)["attempts"] == []


def test_what_all_objects_are_compiled_from_is_told_with_its_kernels(
        order: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    source = inside._sources(order)
    (source / "csrc/many.cu").write_text("template __global__ void f<1>();\n" * 3)
    objects = [f"CMakeFiles/{target}.dir/csrc/{name}.cu.o"
               for target, name in (("_C", "a"), ("_C", "many"), ("_moe_C", "b"))]
    listing = "".join(f"{name}: CUDA_COMPILER\n" for name in objects)
    monkeypatch.setattr(inside.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=listing))
    asked = order | {"targets": ["_C"], "only": ["many.cu"]}
    assert inside._goals(asked) == objects[1:2]
    assert inside._compiled_sources(asked, source) == [
        {"source": "csrc/a.cu", "kernels": 0}, {"source": "csrc/many.cu", "kernels": 3}]


def test_the_result_counts_what_ccache_noted_of_this_run(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(inside, "MEASURES", tmp_path)
    monkeypatch.setenv("SPARKYARD_MEASURES", str(tmp_path))
    usage = inside._usage()
    assert json.loads(json.dumps(usage)) == usage
    assert (usage["objects"], usage["cache_hits"], usage["cache_misses"]) == ([], 0, 0)
    inside._stats().write_text("# /src/a.cu\ndirect_cache_hit\nlocal_storage_hit\n"
                               "# /src/cache_miss.cu\ncache_miss\nremote_storage_error\n")
    usage = inside._usage()
    assert (usage["cache_hits"], usage["cache_misses"], usage["shared_errors"]) == (1, 1, 1)
