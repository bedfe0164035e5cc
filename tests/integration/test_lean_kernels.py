"""A kernel library of our own for several GPUs, trimmed for one: what is left, loads and computes.

Needs ``nvcc``. What it computes is compared only where a GPU is at hand; elsewhere that part is
skipped and says so.
"""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builder.lean.library import trim_library
from tests.integration.test_gate_readers import Cuobjdump

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="there is no nvcc here")
BUILT = ("80", "90", "120", "121")
SOURCE = """
__device__ float table[100000] = {1.5f, 2.5f, 3.5f};  // what is freed is large enough to be cut out
template <int N> __global__ void step(float *x, float a, int n) {
  __shared__ float seen[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  seen[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  if (i < n) x[i] = a * seen[255 - threadIdx.x] + table[N] + table[i % 100000];
}
extern "C" int run(float *host, float a, int n) {
  float *x;
  if (cudaMalloc(&x, n * sizeof *x) != cudaSuccess) return 1;
  cudaMemcpy(x, host, n * sizeof *x, cudaMemcpyHostToDevice);
  step<0><<<(n + 255) / 256, 256>>>(x, a, n);
  step<1><<<(n + 255) / 256, 256>>>(x, a, n);
  int bad = cudaGetLastError() != cudaSuccess;
  bad |= cudaMemcpy(host, x, n * sizeof *x, cudaMemcpyDeviceToHost) != cudaSuccess;
  cudaFree(x);
  return 2 * bad;
}
"""
LOAD = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_NOW).run"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.cu").write_text(SOURCE)
    wanted = [word for number in BUILT for word in
              ("-gencode", f"arch=compute_{number},code=sm_{number}")]
    subprocess.run(["nvcc", "-shared", "-Xcompiler", "-fPIC", "--no-compress", *wanted, "-gencode",
                    f"arch=compute_{BUILT[0]},code=compute_{BUILT[0]}", "-o", folder / "kernels.so",
                    folder / "kernels.cu"], check=True, timeout=300)
    return folder / "kernels.so"


@pytest.mark.parametrize(("gpu", "left"), [
    ("sm_80", {"sm_80"}), ("sm_90", {"sm_90"}), ("sm_121", {"sm_120", "sm_121"})])
def test_only_what_the_gpu_can_run_is_left_and_the_library_loads(
        built: Path, tmp_path: Path, gpu: str, left: set[str]) -> None:
    target = tmp_path / "trimmed.so"
    result = trim_library(built, target, gpu)
    assert result.reason == ""
    assert result.after < result.before
    cuobjdump = Cuobjdump(tmp_path)
    before, after = cuobjdump.listed(built), cuobjdump.listed(target)
    assert after == {name: before[name] for name in left}
    assert (sum(before.values()), sum(after.values())) == (
        result.kept + result.dropped, result.kept)
    subprocess.run([sys.executable, "-c", LOAD, target], check=True, timeout=60)


def test_the_trimmed_library_computes_the_same(built: Path, tmp_path: Path) -> None:
    gpu = gpu_here()
    if gpu is None:
        pytest.skip("not run: there is no GPU here")
    target = tmp_path / "trimmed.so"
    assert trim_library(built, target, gpu).dropped > 0
    assert computed(target) == computed(built)


def gpu_here() -> str | None:
    """Return this machine's GPU as ``sm_90``, None without one."""
    if not shutil.which("nvidia-smi"):
        return None
    said = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
                          capture_output=True, text=True, check=False).stdout
    found = re.match(r"(\d+)\.(\d)", said)
    return f"sm_{found[1]}{found[2]}" if found else None


def computed(library: Path) -> bytes:
    """Return what the library's kernels make of a fixed input."""
    values = (ctypes.c_float * 100_000)(*(math.sin(number) for number in range(100_000)))
    status = ctypes.CDLL(str(library)).run(values, ctypes.c_float(0.01), len(values))
    assert status == 0
    return bytes(values)
