"""Two CUDA extensions of ours, compiled for the GB10 by the real nvcc, put into a wheel and judged.

One uses torch's C++ binding, one its stable ABI. Their kernels run only where a GPU is at hand.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import platform
import shutil
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.bases.state import read_bases
from builder.binaries.gpu_code import read_gpu_code
from builder.binaries.wheel_facts import read_wheels
from builder.build import build
from builder.compile.compiler import ContainerCompiler
from builder.engine.client import Engine, RunSpec
from builder.errors import VerdictError
from builder.gate.kernels import loads
from builder.locking.lock import LockedWheel, load_for
from builder.matrix.cells import Cell
from builder.process import run
from builder.store.content_store import Store
from builder.wheels.assemble import put_together, record_of
from builder.wheels.key import order_key
from builder.wheels.order import Order, Rebuilt
from builder.wheels.recipe import FOLDER, Recipe, load_recipe
from builder.wheels.sources import fetch_files
from builder.workspace import Workspace, cache_folder, open_workspace
from tests.integration.test_gate import closure, errors
from tests.unit.patch_wheels import locked, make_wheel

pytestmark = pytest.mark.engine
ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests/fixtures/cuda_extension"
TARGETS = ("_binding", "_stable")
COST = {"cpu_seconds": 60.0, "memory_gb": 1.0, "objects": 4, "where": "estimated"}
ON_GPU = """
import torch
x = torch.arange(1000, dtype=torch.float32, device="cuda")
for name, ops in ("_binding", "spam"), ("_stable", "spam_stable"):
    torch.ops.load_library(f"/spam/{name}.abi3.so")
    assert torch.equal(getattr(torch.ops, ops).scale(x, 3.0), x * 3.0), name
print("right")
"""


def gpu_at_hand() -> str:
    """Return the architecture of a GPU that this machine compiles for (``121``), or nothing."""
    if platform.machine() != "aarch64" or not shutil.which("nvidia-smi"):
        return ""
    said = run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], check=False)
    return said.stdout.split("\n")[0].strip().replace(".", "") if said.returncode == 0 else ""


GPU = gpu_at_hand()


@dataclass(frozen=True)
class Bench:
    """What every compile here takes."""

    workspace: Workspace
    engine: Engine
    store: Store

    @property
    def cell(self) -> Cell:
        return next(cell for cell in self.workspace.cells if cell.id == "tf5")

    @property
    def compiler(self) -> ContainerCompiler:
        return ContainerCompiler(self.workspace, self.engine, self.store)

    def order(self, folder: Path, arch: str, targets: tuple[str, ...] = TARGETS) -> Order:
        cell, sources = self.cell, make_sources(folder)
        torch = load_for(cell, self.workspace.locks).wheel("torch")
        base = read_bases(self.workspace).get((cell.base_name, cell.platform))
        assert torch
        assert base
        recipe = make_recipe(sources, arch)
        published = make_wheel(folder, {"spam/__init__.py": b"", **{
            f"spam/{name}.abi3.so": b"as published" for name in TARGETS}}, "spam")
        key = order_key(cell, recipe, "1.0", targets, {}, torch, base,
                        self.compiler.fingerprint(recipe, cell))
        paths = fetch_files(cell.id, [torch], self.store, cell.indexes)
        return Order(key=key, cell=cell, recipe=recipe, version="1.0", targets=targets,
                     source=sources, base=base, torch=(torch, paths[torch]),
                     published=(locked(published), published))

    def compile(self, order: Order, output: Path) -> Rebuilt:
        output.mkdir()
        return self.compiler.compile(order, output)


@pytest.fixture
def bench() -> Bench:
    workspace = open_workspace(ROOT / "matrix.toml")
    return Bench(workspace, Engine.connect(), Store(workspace.cache))


def make_sources(folder: Path) -> Path:
    path = folder / "spam-1.0.tar.gz"
    with gzip.GzipFile(path, "wb", mtime=0) as stream, \
            tarfile.open(fileobj=stream, mode="w") as archive:
        for file in sorted(path for path in FIXTURE.rglob("*") if path.is_file()):
            item = tarfile.TarInfo(f"spam-1.0/{file.relative_to(FIXTURE)}")
            item.size = file.stat().st_size
            archive.addfile(item, io.BytesIO(file.read_bytes()))
    return path


def make_recipe(sources: Path, arch: str) -> Recipe:
    """Return the recipe of the extensions, with the toolchain that vLLM is compiled with."""
    toolchain = load_recipe(ROOT / FOLDER / "vllm.toml").toolchain
    targets = {name: {"files": [f"spam/{name}.abi3.so"], "sources": ["CMakeLists.txt", "csrc/*"],
                      "architectures": ["12.0f"], "cost": COST}
               for name in TARGETS}
    return Recipe.model_validate({
        "schema": 1, "package": "spam", "gpu": "sm_121", "tag": arch, "toolchain": toolchain,
        "sources": {"1.0": {"file": sources.name, "size": sources.stat().st_size,
                            "sha256": hashlib.sha256(sources.read_bytes()).hexdigest()}},
        "build": {"definitions": {
            "SPAM_GENCODE": f"-gencode=arch=compute_{arch},code=sm_{arch}"}},
        "targets": targets})


def judged(wheel: LockedWheel, path: Path) -> list[str]:
    """Return what the gate finds in a wheel among those of the cell."""
    (facts,) = read_wheels([(path, wheel.sha256)], cache_folder())
    return [f"{finding.code}: {finding.what}" for finding in errors(
        "tf5", {**closure("tf5"), "spam": facts}) if finding.wheel == wheel.file]


def test_extensions_for_the_gb10_become_a_wheel_that_fits_its_cell(
        bench: Bench, tmp_path: Path) -> None:
    order = bench.order(tmp_path, "120f")
    rebuilt = bench.compile(order, tmp_path / "output")
    assert rebuilt.provenance.objects == 4
    assert rebuilt.provenance.compilers["nvcc"].startswith("13.0")
    assert order.published
    own = Store(tmp_path / "store")
    wheel = put_together(record_of(order, rebuilt), order.published[1], tmp_path / "output", own)
    assert wheel.version.startswith("1.0+sy.120f.k")
    with zipfile.ZipFile(own.wheel_path(wheel)) as archive:
        for name in TARGETS:
            path = tmp_path / name
            path.write_bytes(archive.read(f"spam/{name}.abi3.so"))
            assert path.read_bytes()[18:20] == b"\xb7\0", "AArch64"
            assert [kernel for code in read_gpu_code(path) if loads(code.name, "sm_121")
                    for kernel in code.kernels]
    assert judged(wheel, own.wheel_path(wheel)) == [], "its symbols are those of the locked torch"


def test_an_extension_for_sm_120a_is_refused(bench: Bench, tmp_path: Path) -> None:
    order = bench.order(tmp_path, "120a", ("_stable",))
    with pytest.raises(VerdictError, match=r"arch-exact-only: spam/_stable\.abi3\.so"):
        bench.compile(order, tmp_path / "output")


@pytest.mark.skipif(not GPU, reason="not run: it takes an aarch64 machine with a GPU")
def test_on_a_gpu_the_kernels_give_right_results(bench: Bench, tmp_path: Path) -> None:
    bench.compile(bench.order(tmp_path, GPU), tmp_path / "output")
    image = build(bench.workspace, bench.cell, bench.engine).plan.name
    done = bench.engine.run_once(RunSpec(
        image, ("python", "-c", ON_GPU), gpus="all", network="none",
        mounts=((tmp_path / "output" / "spam", "/spam"),)))
    assert done.stdout.strip() == "right", done.stderr
