"""Caches that take a file and those that refuse; Triton's launcher linked and not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import caches
import pytest
import results

DRIVER_C = "void f(void) { cuInit(0); cuDeviceGet(1); }"
# As Triton's own driver.py and build.py: they name the library and hand everything to the compiler.
DRIVER_PY = """
import os, pathlib
dirname = os.path.dirname(os.path.realpath(__file__))
include_dirs, libraries = [], [{library!r}]
def library_dirs():
    return [os.environ["TRITON_LIBCUDA_PATH"]]
"""
BUILD_PY = """
import pathlib, subprocess, tempfile
def compile_module_from_src(src, name, library_dirs, include_dirs, libraries):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "x.c")
        source.write_text(src)
        flags = [f"-l:{one}" if ".so" in one else f"-l{one}" for one in libraries]
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", folder + "/x.so", str(source),
                        *flags, *(f"-L{one}" for one in library_dirs)], check=True)
"""


def a_triton(folder: Path, library: str) -> None:
    for path, text in {"__init__.py": "", "backends/__init__.py": "", "runtime/__init__.py": "",
                       "backends/nvidia/__init__.py": "", "runtime/build.py": BUILD_PY,
                       "backends/nvidia/driver.c": DRIVER_C,
                       "backends/nvidia/driver.py": DRIVER_PY.format(library=library)}.items():
        file = folder / "triton" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def triton_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_a_launcher_that_links_by_the_drivers_name(triton_in: Path) -> None:
    a_triton(triton_in, "libcuda.so.1")
    assert caches.launcher() == "linked with libcuda.so.1"


def test_a_launcher_that_asks_for_a_name_that_no_driver_has(triton_in: Path) -> None:
    a_triton(triton_in, "cuda")  # -lcuda: only a toolkit's stub or a link of that name serves
    with pytest.raises(results.Wrong, match="cannot find -lcuda"):
        caches.launcher()


def test_an_image_without_triton(triton_in: Path) -> None:
    assert triton_in.is_dir()
    assert caches.launcher() == "no Triton for NVIDIA's GPUs here"


def test_the_stand_in_defines_what_is_called(tmp_path: Path) -> None:
    caches.stand_in(tmp_path, DRIVER_C)
    said = subprocess.run(["nm", "-D", str(tmp_path / "libcuda.so.1")], capture_output=True,
                          text=True, check=True).stdout
    assert "cuInit" in said
    assert "cuDeviceGet" in said


def test_a_folder_is_made_and_left_clean(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert caches.written(folder) == str(folder)
    assert not list(folder.iterdir())


def test_caches_that_refuse_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    envs = ModuleType("vllm.envs")
    envs.VLLM_CACHE_ROOT = str(tmp_path / "vllm")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.envs", envs)
    monkeypatch.setattr(caches, "USERS", (
        ("vLLM", "vllm", caches.of_vllm), ("Torch", "os", absent),
        ("No", "no_such", caches.of_vllm)))
    assert caches.caches() == f"vLLM {tmp_path / 'vllm'}"
    envs.VLLM_CACHE_ROOT = str(tmp_path / "file" / "vllm")  # type: ignore[attr-defined]
    with pytest.raises(results.Wrong, match=r"vLLM: .*Not a directory"):
        caches.caches()


def absent() -> str:
    raise ImportError("not here")


def test_flashinfers_place_is_its_own_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                           ) -> None:
    with pytest.raises(ImportError):
        caches.of_flashinfer()
    (tmp_path / "flashinfer").mkdir()
    (tmp_path / "flashinfer/__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path))
    assert caches.of_flashinfer() == str(tmp_path / ".cache/flashinfer")


def test_tritons_cache_is_written_by_triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                            ) -> None:
    module = ModuleType("triton.runtime.cache")

    class Manager:
        def put(self, data: bytes, name: str, *, binary: bool) -> str:
            assert binary
            file = tmp_path / "key" / name
            file.parent.mkdir()
            file.write_bytes(data)
            return str(file)

    module.get_cache_manager = lambda key: Manager()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton.runtime.cache", module)
    monkeypatch.setitem(sys.modules, "triton.runtime", ModuleType("triton.runtime"))
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    assert caches.of_triton() == str(tmp_path)


def test_inductors_place_in_new_and_old_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                              ) -> None:
    asked = []

    def module(name: str) -> ModuleType:
        asked.append(name)
        if name.endswith("cache_dir_utils"):
            raise ImportError(name)
        found = ModuleType(name)
        found.cache_dir = lambda: str(tmp_path / "inductor")  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(caches.importlib, "import_module", module)
    assert caches.of_inductor() == str(tmp_path / "inductor")
    assert len(asked) == 2
