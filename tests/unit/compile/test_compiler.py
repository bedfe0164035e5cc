"""The container compiler's own decisions; whole compiles are in the integration tests."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gpu_files import library

from builder.compile.compiler import ContainerCompiler, refuse_wrong
from builder.compile.result import Attempt, Made, Result
from builder.errors import UsageError, VerdictError
from builder.patches.apply import Blob
from builder.store.content_store import Store
from builder.wheels.order import RebuiltFile
from tests.unit.wheel_recipes import recipe

ROOT = Path(__file__).parents[3]
OBJECT = "CMakeFiles/_C_stable_libtorch.dir/csrc/b.cu.o"


def compiler(tmp_path: Path, host: str = "linux/amd64") -> ContainerCompiler:
    workspace: Any = SimpleNamespace(root=ROOT)
    engine: Any = SimpleNamespace(info=SimpleNamespace(platform=host))
    return ContainerCompiler(workspace, engine, Store(tmp_path / "cache"))


def cell(platform: str = "linux/arm64") -> Any:
    return SimpleNamespace(id="tf5", image="tf5", platform=platform)


def order(tmp_path: Path, **changed: Any) -> Any:
    for name in ("source", "external"):
        (tmp_path / name).write_bytes(b"archive")
    return SimpleNamespace(**{
        "recipe": recipe(), "targets": ("_C_stable_libtorch",), "cell": cell(), "jobs": None,
        "title": "vllm 0.20.2: _C_stable_libtorch", "source": tmp_path / "source",
        "external": {"cutlass": tmp_path / "external"}, "fresh": False,
        "changes": {"csrc/a.cu": Blob(b"new"), "csrc/gone.cu": None}} | changed)


@pytest.mark.parametrize(("host", "platform", "crosses"), [
    ("linux/amd64", "linux/arm64", True), ("linux/arm64", "linux/arm64", False),
    ("linux/amd64", "linux/amd64", False)])
def test_x86_compiles_for_arm_and_each_for_itself(tmp_path: Path, host: str, platform: str,
                                                  crosses: bool) -> None:
    assert compiler(tmp_path, host)._crosses(cell(platform)) is crosses


def test_arm_does_not_compile_for_x86(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="which linux/arm64 cannot compile for"):
        compiler(tmp_path, "linux/arm64")._crosses(cell("linux/amd64"))


def test_the_order_says_all_that_the_container_needs(tmp_path: Path) -> None:
    folder = tmp_path / "order"
    folder.mkdir()
    compiler(tmp_path)._write(order(tmp_path), (), folder)
    said = json.loads((folder / "order.json").read_text())
    assert said["targets"] == ["_C_stable_libtorch"]
    assert said["memory"] == 10_000_000_000
    assert said["cross"] is True
    assert said["fresh"] is False
    assert said["changes"] == {"csrc/a.cu": "changes/0", "csrc/gone.cu": ""}
    assert (folder / "changes/0").read_bytes() == b"new"
    assert (folder / said["external"]["cutlass"]["archive"]).read_bytes() == b"archive"
    assert (folder / "inside" / "compile.py").is_file()


def test_files_are_taken_by_the_recipes_names(tmp_path: Path) -> None:
    made, output = tmp_path / "made", tmp_path / "output"
    (made / "vllm").mkdir(parents=True)
    (made / "vllm" / "_C_stable_libtorch.abi3.so").write_bytes(b"code")
    taken = list(compiler(tmp_path)._take(order(tmp_path), made, output))
    assert [(one.path, one.size, one.target) for one in taken] == [
        ("vllm/_C_stable_libtorch.abi3.so", 4, "_C_stable_libtorch")]
    with pytest.raises(VerdictError, match=r"made no vllm/_C\.abi3\.so"):
        list(compiler(tmp_path)._take(order(tmp_path, targets=("_C",)), made, output))


def test_a_whole_build_leaves_one_wheel(tmp_path: Path) -> None:
    with pytest.raises(VerdictError, match="left 0 wheels"):
        list(compiler(tmp_path)._take(order(tmp_path, targets=()), tmp_path, tmp_path / "output"))


def failure(tmp_path: Path, line: str, **result: Any) -> VerdictError:
    (tmp_path / "log.txt").write_text(f"FAILED: {OBJECT} \n{line}\nninja: build stopped\n")
    told = Result(status="failed", step="compile", **result)
    return compiler(tmp_path)._failure(order(tmp_path), told, tmp_path / "log.txt")


def test_a_failure_names_the_object_the_line_and_the_kept_log(tmp_path: Path) -> None:
    error = failure(tmp_path, "csrc/b.cu(17): error: identifier \"foo\" is undefined")
    assert f"while making {OBJECT}" in error.what
    assert "line 2 of 3" in error.what
    assert Path(error.where).read_text().startswith("FAILED")
    assert "patch" in error.next_step


def test_a_job_killed_for_memory_is_said_with_figures(tmp_path: Path) -> None:
    made = Made(object=OBJECT, seconds=1, cpu_seconds=1, peak_memory=9_400_000_000, status=137)
    attempts = (Attempt(jobs=2, status=1, killed=True), Attempt(jobs=1, status=1, killed=True))
    error = failure(tmp_path, "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
                    objects=(made,), attempts=attempts, available_memory=4_000_000_000)
    assert "tried with 2, 1 jobs" in error.what
    assert "4.0 GB are there, one compile took up to 9.4 GB; not even one fits" in error.what


def test_the_fingerprint_does_not_depend_on_who_compiles(tmp_path: Path) -> None:
    first = compiler(tmp_path).fingerprint(recipe(), cell())
    assert first == compiler(tmp_path, "linux/arm64").fingerprint(recipe(), cell())
    assert len(first) == 64


def test_what_a_compile_reads_and_writes_outlives_the_sweep_of_another_run(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = compiler(tmp_path)

    def bake(definition: Any, *_: object, **__: object) -> None:
        target = definition["target"]["compile"]
        with Store(tmp_path / "cache").temporary("another run"):
            assert Path(target["contexts"]["order"], "order.json").is_file()
        folder = Path(target["output"][0].partition("dest=")[2])
        (folder / "result.json").write_text('{"status": "complete"}')

    monkeypatch.setattr(built, "_engine", SimpleNamespace(
        info=SimpleNamespace(platform="linux/amd64"), bake=bake))
    monkeypatch.setattr(built, "_material", lambda _: SimpleNamespace(digest="tools"))
    monkeypatch.setattr("builder.compile.compiler.ensure",
                        lambda *_: SimpleNamespace(reference="base"))
    monkeypatch.setattr("builder.compile.compiler.layers", lambda *_: [])
    asked = order(tmp_path, cell=SimpleNamespace(**vars(cell()), base_name="slim"))
    with built._built(asked, ()) as (result, folder, tools):
        assert (result.status, tools) == ("complete", "tools")
    assert not folder.exists()


def test_code_that_cannot_run_is_refused_with_the_reason(tmp_path: Path) -> None:
    asked, output = order(tmp_path), tmp_path / "output"
    (output / "vllm").mkdir(parents=True)
    file = asked.recipe.targets["_C_stable_libtorch"].files[0]
    made = [RebuiltFile(path=file, sha256="a" * 64, size=1, target="_C_stable_libtorch")]
    library(output, ["good-120f"], name=file)
    refuse_wrong(asked, made, output)
    library(output, ["stub-121a"], name=file)
    with pytest.raises(VerdictError, match="refused by the gate") as refused:
        refuse_wrong(asked, made, output)
    assert "empty-kernels" in refused.value.what
    assert "no-instruction" in refused.value.what
