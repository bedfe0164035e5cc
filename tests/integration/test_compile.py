"""Real compiles by real nvcc in the locked toolchain: ours, judged by its code, and one of vLLM's.

The whole of vLLM's ``_C_stable_libtorch`` takes eight minutes of processor time. Here its long
kernels are left out; what is left is compiled, linked and installed as the whole is.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from builder.bases.state import read_bases
from builder.binaries.gpu_code import read_gpu_code
from builder.compile import shared_cache
from builder.compile.compiler import ContainerCompiler
from builder.engine.client import Engine
from builder.errors import VerdictError
from builder.gate.compiled import instructions
from builder.locking.lock import load_for
from builder.matrix.cells import Cell
from builder.process import run
from builder.store.content_store import Store
from builder.wheels.order import Order, Rebuilt
from builder.wheels.recipe import Recipe, load_recipe
from builder.wheels.sources import external_archives, fetch_files, source_archive
from builder.workspace import Workspace, open_workspace

pytestmark = pytest.mark.engine
ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "fixtures" / "compiled_code" / "mma.cu"
STABLE, PARTS = "_C_stable_libtorch", 19
NVCC = ("mkdir -p $OUTPUT/small && $LAUNCHER nvcc -ccbin $CXX --target-directory sbsa-linux -O2 "
        "-Xcompiler -fPIC -gencode arch=compute_{0},code=sm_{0} {1} -c mma.cu -o mma.o && "
        # nvcc as the linker would write its own folder into the library.
        "$CXX -shared -s mma.o -L/opt/cuda/targets/sbsa-linux/lib -lcudart "
        "-o $OUTPUT/small/_C.so")


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return open_workspace(ROOT / "matrix.toml")


@pytest.fixture(scope="module")
def compiler(workspace: Workspace) -> ContainerCompiler:
    return ContainerCompiler(workspace, Engine.connect(), Store(workspace.cache))


def cell_of(workspace: Workspace) -> Cell:
    return next(cell for cell in workspace.cells if cell.id == "tf5")


def order(workspace: Workspace, recipe: Recipe, source: Path, **changed: Any) -> Order:
    cell = cell_of(workspace)
    return Order(**{"key": "a" * 64, "cell": cell, "recipe": recipe, "version": "1.0",
                    "targets": ("_C",), "source": source,
                    "base": read_bases(workspace).committed["slim", "linux/arm64"]} | changed)


def small(workspace: Workspace, folder: Path, arch: str, *macros: str) -> Order:
    """Return the order of a small extension: our kernels, by the toolchain of vLLM's recipe."""
    archive = folder / "small-1.0.tar.gz"
    with gzip.GzipFile(archive, "wb", mtime=0) as stream, \
            tarfile.open(fileobj=stream, mode="w") as tar:
        data = SOURCE.read_bytes()
        member = tarfile.TarInfo("small-1.0/mma.cu")
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    vllm = load_recipe(ROOT / "wheels" / "vllm.toml")
    flags = " ".join(f"-D{macro}" for macro in macros)
    recipe = Recipe.model_validate({
        "schema": 1, "package": "small", "gpu": "sm_121", "tag": "121a",
        "sources": {"1.0": {"file": archive.name, "size": archive.stat().st_size,
                            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}},
        "toolchain": vllm.toolchain.model_dump(),
        "build": {"system": "command", "command": ["sh", "-ec", NVCC.format(arch, flags)]},
        "targets": {"_C": {"files": ["small/_C.so"], "sources": ["*"], "architectures": ["12.0f"],
                           "instructions": ["QMMA"], "cost": {
                               "cpu_seconds": 5, "memory_gb": 1, "objects": 1, "where": "here"}}}})
    return order(workspace, recipe, archive)


def compiled(compiler: ContainerCompiler, asked: Order, folder: Path) -> Rebuilt:
    folder.mkdir()
    return compiler.compile(asked, folder)


def test_our_kernels_are_compiled_twice_into_the_same_bytes(
        workspace: Workspace, compiler: ContainerCompiler, tmp_path: Path) -> None:
    asked = small(workspace, tmp_path, "120f", "FP4")
    first = compiled(compiler, asked, tmp_path / "first")
    assert first.provenance.mode in ("cross", "native")
    codes = read_gpu_code(tmp_path / "first" / "small" / "_C.so")
    assert instructions(codes, "sm_121") == {"QMMA": 1, "OMMA": 1}
    again = replace(asked, fresh=True)
    assert compiled(compiler, again, tmp_path / "second").files == first.files


@pytest.mark.parametrize(("arch", "macro", "code"), [
    ("120a", "FP4", "arch-exact-only"), ("121a", "GUARD_ONLY", "empty-kernels")])
def test_code_that_cannot_run_is_refused(
        workspace: Workspace, compiler: ContainerCompiler, tmp_path: Path, arch: str, macro: str,
        code: str) -> None:
    with pytest.raises(VerdictError, match="refused by the gate") as refused:
        compiled(compiler, small(workspace, tmp_path, arch, macro), tmp_path / "output")
    assert code in refused.value.what


def test_an_error_of_the_compiler_is_named_and_the_log_is_kept(
        workspace: Workspace, compiler: ContainerCompiler, tmp_path: Path) -> None:
    with pytest.raises(VerdictError, match="this nvcc does not know compute_999") as failed:
        compiled(compiler, small(workspace, tmp_path, "999"), tmp_path / "output")
    assert "Unsupported gpu architecture" in Path(failed.value.where).read_text()


@contextmanager
def served() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Serve a folder that takes GET and PUT to containers; give its address and what it holds."""
    held: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            held[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(201)

        def do_GET(self) -> None:
            self._answer(200 if self.path in held else 404, held.get(self.path, b""))

        def do_HEAD(self) -> None:
            self.do_GET()

        def _answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    host = run(["docker", "network", "inspect", "bridge", "--format",
                "{{(index .IPAM.Config 0).Gateway}}"]).stdout.strip()
    with ThreadingHTTPServer((host, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{host}:{server.server_port}/objects", held
        server.shutdown()


def test_a_machine_takes_what_another_one_put_into_the_shared_cache(
        workspace: Workspace, compiler: ContainerCompiler, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    asked = small(workspace, tmp_path, "120f")
    build = asked.recipe.build.model_copy(update={
        "environment": {"CCACHE_DIR": "/build/ccache"}})  # gone with the container: a new machine
    asked = replace(asked, recipe=asked.recipe.model_copy(update={"build": build}))
    with served() as (address, held):
        monkeypatch.setenv(shared_cache.VARIABLE, address)
        first = compiled(compiler, asked, tmp_path / "first")
        assert (first.provenance.cache_hits, first.provenance.cache_misses) == (0, 1)
        assert held
        second = compiled(compiler, asked, tmp_path / "second")
    assert (second.provenance.cache_hits, second.provenance.cache_misses) == (1, 0)
    assert second.files == first.files


def vllm_part(workspace: Workspace) -> Order:
    """Return the order of vLLM's smallest target, whose long kernels are left out."""
    cell, store = cell_of(workspace), Store(workspace.cache)
    recipe = load_recipe(ROOT / "wheels" / "vllm.toml")
    target = recipe.targets[STABLE].model_copy(update={"instructions": ()})
    recipe = recipe.model_copy(update={
        "targets": {STABLE: target}, "build": recipe.build.model_copy(update={
            "exclude": (*recipe.build.exclude, "csrc/libtorch_stable/quantization/*.cu")})})
    torch = load_for(cell, workspace.locks).wheel("torch")
    assert torch
    archive, external = source_archive(recipe, "0.20.2"), external_archives(recipe)
    paths = fetch_files(cell.id, [archive, torch, *external.values()], store, cell.indexes)
    return order(workspace, recipe, paths[archive], version="0.20.2", targets=(STABLE,),
                 torch=(torch, paths[torch]),
                 external={name: paths[each] for name, each in external.items()})


def test_a_part_of_vllm_is_compiled_linked_and_installed_by_its_own_cmake(
        workspace: Workspace, compiler: ContainerCompiler, tmp_path: Path) -> None:
    made = compiled(compiler, vllm_part(workspace), tmp_path / "output")
    library = tmp_path / "output" / "vllm" / f"{STABLE}.abi3.so"
    assert [file.path for file in made.files] == [f"vllm/{STABLE}.abi3.so"]
    codes = [code for code in read_gpu_code(library) if code.kernels]
    assert {code.name for code in codes} == {"sm_120"}
    assert any("permute_cols" in kernel.name for code in codes for kernel in code.kernels)
    facts = made.provenance
    assert facts.objects >= PARTS
    assert facts.peak_memory > 1 << 20
    assert facts.cache_hits + facts.cache_misses >= 1


def test_a_whole_package_is_compiled_into_a_wheel_for_the_other_processor(
        workspace: Workspace, compiler: ContainerCompiler, tmp_path: Path) -> None:
    recipe = load_recipe(ROOT / "wheels" / "fastsafetensors.toml")
    archive, cell = source_archive(recipe, "0.5.0"), cell_of(workspace)
    path = fetch_files(cell.id, [archive], Store(workspace.cache), cell.indexes)[archive]
    asked = order(workspace, recipe, path, version="0.5.0", targets=())
    (file,) = compiled(compiler, asked, tmp_path / "output").files
    assert file.path == "fastsafetensors-0.5.0-cp311-cp311-manylinux_2_36_aarch64.whl"
    with zipfile.ZipFile(tmp_path / "output" / file.path) as wheel:
        module = wheel.read("fastsafetensors/cpp.cpython-311-aarch64-linux-gnu.so")
        assert module[18:20] == b"\xb7\0", "AArch64"
        assert b"Name: fastsafetensors" in wheel.read("fastsafetensors-0.5.0.dist-info/METADATA")
