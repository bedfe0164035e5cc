"""The few instructions that the gate knows, beside NVIDIA's own ``nvdisasm``.

It comes out of the locked triton wheel, as ``cuobjdump`` in ``test_gate_readers``.
"""

from __future__ import annotations

import platform
import re
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from builder.binaries.gpu_code import GpuCode, read_gpu_code
from builder.binaries.sass import NAMES, kernels
from builder.locking.lock import read_lock
from builder.process import run
from tests.integration.test_gate_readers import LOCKS, fetched

CUBINS = Path(__file__).parents[1] / "fixtures" / "compiled_code"
LIBRARY = "vllm/_C_stable_libtorch.abi3.so"
SAID = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)", re.MULTILINE)
COMPARED = 12


@pytest.fixture(scope="module")
def nvdisasm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    native = platform.machine() in ("aarch64", "arm64")
    lock = read_lock(LOCKS / ("tf5.toml" if native else "cpu.toml"))
    wheel, _ = fetched(lock, "triton")["triton"]
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/nvdisasm"))
        program = Path(archive.extract(name, tmp_path_factory.mktemp("triton")))
    program.chmod(0o755)
    return program


def said(nvdisasm: Path, cubin: Path) -> Counter[str]:
    """Return how often nvdisasm says each of the names that we know."""
    text = run([nvdisasm, "--no-dataflow", cubin]).stdout
    return Counter(name for name in SAID.findall(text) if name in NAMES.values())


def ours(cubin: bytes) -> Counter[str]:
    """Return what we count."""
    return sum((kernel.instructions for kernel in kernels(cubin)), Counter[str]())


@pytest.mark.parametrize("cubin", sorted(CUBINS.glob("*.cubin")), ids=lambda path: path.stem)
def test_the_fixtures_are_read_as_nvdisasm_reads_them(nvdisasm: Path, cubin: Path) -> None:
    assert ours(cubin.read_bytes()) == said(nvdisasm, cubin)
    text = run([nvdisasm, "--no-dataflow", cubin]).stdout
    traps = any(kernel.trap_only for kernel in kernels(cubin.read_bytes()))
    assert traps == ("BPT.TRAP" in text)


def test_the_published_kernels_are_counted_as_nvdisasm_counts_them(
        nvdisasm: Path, tmp_path: Path) -> None:
    wheel, _ = fetched(read_lock(LOCKS / "tf5.toml"), "vllm")["vllm"]
    with zipfile.ZipFile(wheel) as archive:
        library = Path(archive.extract(LIBRARY, tmp_path))
    found = [code for code in read_gpu_code(library) if code.cubin]
    used = sorted((code for code in found if ours(code.cubin)), key=lambda code: len(code.cubin))
    assert used, "the published library has matrix instructions for this family"
    for index, code in enumerate(used[:COMPARED]):
        assert ours(code.cubin) == said(nvdisasm, _written(tmp_path, index, code)), code.name


def _written(folder: Path, index: int, code: GpuCode) -> Path:
    path = folder / f"{index}.cubin"
    path.write_bytes(code.cubin)
    return path
