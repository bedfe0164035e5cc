"""FlashInfer's own generator on its real sources, for every module that the recipe names.

The compilers are stand-ins that write down what they are asked; what nvcc makes of it takes minutes
a module. Of torch's wheel there are the two files that the stub reads.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from builder.compile.inside import flashinfer_aot, stub_torch
from builder.compile.unpacking import TOOLS, placed
from builder.locking.lock import LockedWheel
from builder.store.content_store import Store
from builder.wheels.recipe import Recipe, load_recipe
from builder.wheels.sources import fetch_files, source_archive
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[2]
VERSION = "0.6.8.post1"
NVCC = """#!/bin/sh
[ "$*" = --version ] && echo "Cuda compilation tools, release 13.0, V13.0.88" && exit
echo "$@" >> {log}
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo object > "$2"; shift; done
"""


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load_recipe(ROOT / "wheels" / "flashinfer-python.toml")


@pytest.fixture(scope="module")
def made(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of one run that made all targets: ``out``, ``commands``, ``source``."""
    folder = tmp_path_factory.mktemp("flashinfer")
    unpack(recipe, folder)
    for name in ("nvcc", "aarch64-linux-gnu-g++-12"):
        program = folder / "cuda" / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(NVCC.format(log=folder / "commands"))
        program.chmod(0o755)
    (folder / "order.json").write_text(json.dumps({"jobs": 2, "memory": 1}))
    (folder / "measures").mkdir()
    inside = Path(flashinfer_aot.__file__).parents[1]
    script = (f"import sys; from pathlib import Path; sys.path.insert(0, {str(inside)!r})\n"
              "from inside import flashinfer_aot as f\n"
              "f.ORDER, f.LOG = Path('../order.json').resolve(), Path('../log').resolve()\n"
              "sys.exit(f.main())")
    tools = folder / TOOLS
    env = {**os.environ, **recipe.build.environment, "LAUNCHER": "/usr/bin/env",
           "TARGETS": " ".join(map(recipe.cmake_name, recipe.targets)),
           "OUTPUT": str(folder / "out"), "CUDA_HOME": str(folder / "cuda"),
           "CC": "gcc", "CXX": str(folder / "cuda" / "bin" / "aarch64-linux-gnu-g++-12"),
           "FACTS": str(folder / "facts"), "SPARKYARD_MEASURES": str(folder / "measures"),
           "PYTHONPATH": f"{folder / 'stubs'}:{tools / 'python'}",
           "PATH": f"{tools / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, "-SBc", script], cwd=folder / "source", env=env,
                          check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def unpack(recipe: Recipe, folder: Path) -> None:
    """Fetch and unpack the sources and the tools that need no toolkit; write the stub of torch."""
    workspace = open_workspace(ROOT / "matrix.toml")
    tools = [LockedWheel.model_validate(need.model_dump(exclude={"role"}))
             for need in recipe.toolchain.requirements
             if need.role == "tool" and not need.name.startswith("nvidia-")
             and need.fits(platform.machine())]
    archive = source_archive(recipe, VERSION)
    paths = fetch_files("tf5", [archive, *tools], Store(workspace.cache),
                        workspace.cells[0].indexes)
    with tarfile.open(paths[archive]) as tar:
        tar.extractall(folder, filter="data")
    (folder / archive.file.removesuffix(".tar.gz")).rename(folder / "source")
    for tool in tools:
        with zipfile.ZipFile(paths[tool]) as wheel:
            for name in wheel.namelist():
                place = folder / placed(name, "tool")
                if place != folder and not name.endswith("/"):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(wheel.read(name))
                    place.chmod(0o755)
    torch = folder / "torch"
    (torch / "utils").mkdir(parents=True)
    (torch / "version.py").write_text("__version__ = '2.11.0+cu130'\ncuda = '13.0'\n")
    (torch / "utils" / "cpp_extension.py").write_text("COMMON_NVCC_FLAGS = []\n")
    stub_torch.write(torch, folder / "stubs")


def test_every_target_is_a_module_of_flashinfers_list_at_its_place(recipe: Recipe, made: Path
                                                                   ) -> None:
    found = {path.relative_to(made / "out").as_posix() for path in (made / "out").rglob("*.so")}
    assert found == {file for target in recipe.targets.values() for file in target.files}


def test_the_recipe_counts_the_objects(recipe: Recipe, made: Path) -> None:
    for key, target in recipe.targets.items():
        folder = made / "source" / "flashinfer.dir" / "cached_ops" / recipe.cmake_name(key)
        assert len(list(folder.glob("*.o"))) == target.cost.objects, key


def test_each_object_is_asked_for_this_gpu_alone_and_for_the_other_processor(made: Path) -> None:
    compiles = [line for line in (made / "commands").read_text().splitlines() if " -c " in line]
    for line in compiles:
        assert line.count("-gencode=") == 1
        assert "-gencode=arch=compute_121a,code=sm_121a" in line
        assert "--target-directory sbsa-linux" in line
        assert "-MD -MT " in line


def test_the_sources_are_those_of_the_modules_types(recipe: Recipe, made: Path) -> None:
    generated = made / "source" / "flashinfer.dir" / "generated"
    name = recipe.cmake_name("attention_fp8_128")
    settings = (generated / name / "batch_prefill_config.inc").read_text()
    assert "using DTypeKV = __nv_fp8_e4m3;" in settings
    assert "using DTypeQ = nv_bfloat16;" in settings
