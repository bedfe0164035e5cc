"""What is compiled while vLLM runs: Triton's launcher is linked, and each cache takes a file.

Triton compiles its launcher in C at the first launch and links it with the driver's library by the
name that the driver has. Here a stand-in of that name takes its place: there is no driver.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from results import Wrong

DRIVER = "triton.backends.nvidia.driver"
CALL = re.compile(r"\b(cu[A-Z]\w*)\s*\(")
PROBE = "sparkyard-probe"
LINK = f"""
from pathlib import Path
from {DRIVER} import dirname, include_dirs, libraries, library_dirs
from triton.runtime.build import compile_module_from_src
directories = library_dirs() if callable(library_dirs) else library_dirs
source = Path(dirname, "driver.c").read_text()
compile_module_from_src(src=source, name="cuda_utils", library_dirs=directories,
                        include_dirs=include_dirs, libraries=libraries)
print(", ".join(libraries))
"""


def launcher() -> str:
    """Let Triton compile, link and keep its own launcher; raise Wrong where it cannot."""
    found = importlib.util.find_spec("triton")
    source = Path(found.origin or "").parent / "backends/nvidia/driver.c" if found else None
    if source is None or not source.is_file():
        return "no Triton for NVIDIA's GPUs here"
    with tempfile.TemporaryDirectory() as folder:
        stand_in(Path(folder), source.read_text(encoding="utf-8"))
        here = {**os.environ, "TRITON_LIBCUDA_PATH": folder, "LD_LIBRARY_PATH": folder}
        done = subprocess.run([sys.executable, "-c", LINK], capture_output=True, text=True,
                              check=False, env=here)
    if done.returncode:
        told = done.stderr.strip()  # the linker's words come first, Python's own last
        raise Wrong(f"Triton's launcher is not built: {told[:400]} … {told[-200:]}")
    return f"linked with {done.stdout.strip()}"


def stand_in(folder: Path, source: str) -> None:
    """Compile a libcuda.so.1 that defines what a source calls; no other name for it is there."""
    names = sorted(set(CALL.findall(source)))
    code = folder / "libcuda.c"
    code.write_text("".join(f"int {name}(void) {{ return 100; }}\n" for name in names))
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-o",
                    str(folder / "libcuda.so.1"), str(code)], check=True)


def caches() -> str:
    """Write into each cache through the program that uses it; raise Wrong for those that refuse."""
    wrong, good = [], []
    for name, package, write in USERS:
        if not imports(package):
            continue
        try:
            good.append(f"{name} {write()}")
        except ImportError:
            continue  # this image has a package of that name and no more
        except OSError as error:
            wrong.append(f"{name}: {error}")
    if wrong:
        raise Wrong("; ".join(wrong))
    return ", ".join(good)


def imports(package: str) -> bool:
    """Say whether a package can be imported; that one cannot is the finding of another check."""
    try:
        importlib.import_module(package)
    except Exception:  # noqa: BLE001 - whatever an import raises
        return False
    return True


def of_triton() -> str:
    """Write through Triton's own cache."""
    key = hashlib.sha256(PROBE.encode()).hexdigest()  # it takes no other form
    manager = importlib.import_module("triton.runtime.cache").get_cache_manager(key)
    return str(Path(manager.put(b"x", PROBE, binary=True)).parents[1])


def of_inductor() -> str:
    """Write where TorchInductor keeps its kernels."""
    try:
        module = importlib.import_module("torch._inductor.runtime.cache_dir_utils")
    except ImportError:  # torch before 2.6
        module = importlib.import_module("torch._inductor.runtime.runtime_utils")
    return written(Path(module.cache_dir()))


def of_vllm() -> str:
    """Write where vLLM keeps compiled graphs."""
    return written(Path(importlib.import_module("vllm.envs").VLLM_CACHE_ROOT))


def of_flashinfer() -> str:
    """Write where FlashInfer keeps its kernels: by its own rule."""
    if importlib.util.find_spec("flashinfer") is None:
        raise ImportError("flashinfer")
    base = os.environ.get("FLASHINFER_WORKSPACE_BASE") or str(Path.home())
    return written(Path(base) / ".cache" / "flashinfer")


def written(folder: Path) -> str:
    """Write a file to a folder, made where it is missing, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / PROBE
    file.write_bytes(b"x")
    file.unlink()
    return str(folder)


# FlashInfer is not imported: that takes minutes where the processor is emulated.
USERS = (("Triton", "triton", of_triton), ("TorchInductor", "torch", of_inductor),
         ("vLLM", "vllm", of_vllm), ("FlashInfer", "os", of_flashinfer))
