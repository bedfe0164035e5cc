"""FlashInfer's generator driven: here by a package of the same shape, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builder.compile.inside import flashinfer_aot

INSIDE = Path(flashinfer_aot.__file__).parent
# What flashinfer.aot and flashinfer.jit.core have of what is used, in the same words.
AOT = """\
import os, shutil
from pathlib import Path
import requests, tvm_ffi
from .jit import core

def gen_all_modules(*settings):
    assert settings == ("a", "b")
    return [core.JitSpec(name) for name in ("norm", "page", "rope")]

def compile_and_package_modules(out_dir, build_dir, project_root, verbose, skip_prebuilt):
    print("headers", tvm_ffi.libinfo.find_include_path())
    assert (Path.cwd(), verbose, skip_prebuilt) == (project_root, True, False)
    specs, lines = gen_all_modules("a", "b"), []
    for spec in specs:
        folder = build_dir / spec.name
        folder.mkdir(parents=True)
        (folder / "build.ninja").write_text(core.generate_ninja_build_for_op(name=spec.name))
        lines.append(f"subninja {folder}/build.ninja")
    (build_dir / "all.ninja").write_text("\\n".join([*lines, ""]))
    core.run_ninja(build_dir, build_dir / "all.ninja", verbose)
    for spec in specs:
        (out_dir / spec.name).mkdir(parents=True)
        shutil.copy(build_dir / spec.name / "made", out_dir / spec.name / f"{spec.name}.so")
"""
CORE = """\
import os
from types import SimpleNamespace

def JitSpec(name):
    return SimpleNamespace(name=name)

def generate_ninja_build_for_op(name):
    command = "echo $$FLASHINFER_NVCC --generate-dependencies-with-compile --dependency-output d"
    return (f"rule r\\n  command = {command} > $out && {os.environ['AND_THEN']}\\n"
            f"build {name}/made: r\\n")

def run_ninja(workdir, ninja_file, verbose):
    raise AssertionError("FlashInfer's own ninja")
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return unpacked sources whose own __init__ must not run."""
    package = tmp_path / "source" / "flashinfer"
    (package / "jit").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('it would load kernels')\n")
    (package / "aot.py").write_text(AOT)
    (package / "jit" / "__init__.py").write_text("")
    (package / "jit" / "core.py").write_text(CORE)
    return package.parent


def run(source: Path, targets: str, then: str = "true") -> subprocess.CompletedProcess[str]:
    if shutil.which("ninja") is None:
        pytest.skip("no ninja on this machine")
    folder = source.parent
    order, log = folder / "order.json", folder / "log"
    order.write_text(json.dumps({"jobs": 2, "memory": 1}))
    (folder / "measures").mkdir()
    script = (f"import os, sys; sys.path.insert(0, {str(INSIDE.parent)!r})\n"
              "from pathlib import Path\nfrom inside import flashinfer_aot as f\n"
              f"f.ORDER, f.LOG = Path({str(order)!r}), Path({str(log)!r})\n"
              "sys.exit(f.main())")
    env = {**os.environ, "TARGETS": targets, "OUTPUT": str(folder / "out"), "LAUNCHER": "launch it",
           "CUDA_HOME": "/opt/cuda", "CXX": "/usr/bin/aarch64-linux-gnu-g++-12", "AND_THEN": then,
           "FACTS": str(folder / "facts"), "SPARKYARD_MEASURES": str(folder / "measures")}
    return subprocess.run([sys.executable, "-Bc", script], cwd=source, env=env, check=False,
                          capture_output=True, text=True, timeout=60)


def test_only_the_targets_are_made_where_flashinfer_looks_for_them(source: Path) -> None:
    done = run(source, "norm rope")
    assert done.returncode == 0, done.stderr
    out = source.parent / "out/flashinfer/data/aot"
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*.so")) == [
        "norm/norm.so", "rope/rope.so"]
    assert (out / "norm/norm.so").read_text() == (
        "launch it /opt/cuda/bin/nvcc -MD -MT norm/made -MF d\n")
    assert "headers /opt/headers/tvm_ffi/include" in done.stdout
    assert "@[2/2" in done.stdout
    facts = json.loads((source.parent / "facts").read_text())
    assert [each["jobs"] for each in facts["attempts"]] == [2]


def test_a_module_that_flashinfer_does_not_have_is_said_with_those_that_are_near(
        source: Path) -> None:
    done = run(source, "norm pages")
    assert done.returncode != 0
    assert "error: FlashInfer has no module pages; near to the first: page" in done.stderr
    assert not (source.parent / "out").exists()


def test_a_compile_that_fails_keeps_its_facts_and_makes_nothing(source: Path) -> None:
    done = run(source, "norm", "echo 'x.cu(1): error: no'; exit 1")
    assert done.returncode != 0
    assert "x.cu(1): error: no" in (source.parent / "log").read_text()
    assert json.loads((source.parent / "facts").read_text())["attempts"][0]["status"] != 0
    assert not (source.parent / "out").exists()


@pytest.mark.parametrize("compiler", ["/usr/bin/g++-12", "/usr/bin/aarch64-linux-gnu-g++-12"])
def test_only_a_cross_compile_names_the_target(compiler: str, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[str, Any] = {"CXX": compiler, "LAUNCHER": "ccache", "CUDA_HOME": "/opt/cuda"}
    monkeypatch.setattr(flashinfer_aot, "os", SimpleNamespace(environ=said))
    flashinfer_aot.environment(tmp_path)
    flags = said["FLASHINFER_EXTRA_CUDAFLAGS"]
    assert ("--target-directory sbsa-linux" in flags) == ("aarch64" in compiler)
    assert f"-ffile-prefix-map={tmp_path}/=" in flags
    assert "$$ORIGIN/../../../../nvidia/cu13/lib" in said["FLASHINFER_EXTRA_LDFLAGS"]
