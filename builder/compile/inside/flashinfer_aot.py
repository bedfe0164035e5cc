"""FlashInfer's modules of ``$TARGETS`` by FlashInfer's own generator, for ``python3 -m``.

``flashinfer.aot`` renders sources from its templates, writes ninja's files and copies what is made,
as for FlashInfer's ``jit-cache``; only the choice of modules is ours, and how ninja is driven. A
target is named as FlashInfer names the module and looks for it at run time. What it would load is
for the other processor: torch has a stub, and of tvm-ffi it asks for the headers.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from . import ninja

ORDER, LOG = Path("/order/order.json"), Path("/out/log.txt")
HEADERS = Path("/opt/headers/tvm_ffi")
WHERE = "flashinfer/data/aot"  # FLASHINFER_AOT_DIR, from the wheel's top
# FlashInfer splits it as a shell does, ninja and the linker's shell read it once more. CUDA's
# libraries lie beside the package, four folders above a module.
LINK = r"-s '-Wl,-rpath,\$$ORIGIN/../../../../nvidia/cu13/lib'"
# The same options as CMake writes them: ccache does not know their long names.
DEPENDENCIES = ("--generate-dependencies-with-compile --dependency-output", "-MD -MT $out -MF")


def main() -> int:
    """Make the targets in the unpacked sources, the current folder."""
    source = Path.cwd()
    environment(source)
    stand_in(source)
    aot: Any = import_module("flashinfer.aot")
    core: Any = import_module("flashinfer.jit.core")
    written = core.generate_ninja_build_for_op
    core.generate_ninja_build_for_op = lambda **words: written(**words).replace(*DEPENDENCIES)
    core.run_ninja = run_ninja
    aot.gen_all_modules = chosen(aot.gen_all_modules, os.environ["TARGETS"].split())
    aot.compile_and_package_modules(
        out_dir=Path(os.environ["OUTPUT"], WHERE), build_dir=source / "flashinfer.dir",
        project_root=source, verbose=True, skip_prebuilt=False)
    return 0


def environment(source: Path) -> None:
    """Say by FlashInfer's own variables what compiles, and for which machine."""
    cross = ["--target-directory sbsa-linux"] if "aarch64-linux-gnu-" in os.environ["CXX"] else []
    os.environ |= {
        "FLASHINFER_WORKSPACE_BASE": str(source),
        "FLASHINFER_NVCC": f"{os.environ['LAUNCHER']} {os.environ['CUDA_HOME']}/bin/nvcc",
        "FLASHINFER_EXTRA_CUDAFLAGS": " ".join(
            [*cross, f"-Xcompiler=-ffile-prefix-map={source}/="]),
        "FLASHINFER_EXTRA_LDFLAGS": LINK}


def stand_in(source: Path) -> None:
    """Make ``flashinfer`` the sources without its own imports, and stand in for what loads code."""
    modules: dict[str, Any] = {name: ModuleType(name)
                               for name in ("flashinfer", "tvm_ffi", "requests")}
    modules["flashinfer"].__path__ = [str(source / "flashinfer")]
    modules["tvm_ffi"].libinfo = SimpleNamespace(
        find_include_path=lambda: str(HEADERS / "include"),
        find_dlpack_include_path=lambda: str(HEADERS / "3rdparty/dlpack/include"))
    sys.modules |= modules


def chosen(every: Callable[..., Iterable[Any]], wanted: list[str]) -> Callable[..., list[Any]]:
    """Return a generator of only the wanted modules; SystemExit names those that there are not."""
    def modules(*settings: object) -> list[Any]:
        found = {spec.name: spec for spec in every(*settings)}
        missing = [name for name in wanted if name not in found]
        if missing:
            near = difflib.get_close_matches(missing[0], found, 3, 0)
            raise SystemExit(f"error: FlashInfer has no module {', '.join(missing)}; near to the "
                             f"first: {', '.join(near)}")
        return [found[name] for name in wanted]
    return modules


def run_ninja(workdir: Path, ninja_file: Path, verbose: bool) -> None:  # noqa: ARG001
    """Run ninja in FlashInfer's place: with the jobs that fit, its progress, and its facts kept."""
    order = json.loads(ORDER.read_text())
    facts = ninja.make(order, workdir, ["-f", str(ninja_file)], LOG)
    Path(os.environ["FACTS"]).write_text(json.dumps(facts))
    if facts["attempts"][-1]["status"] != 0:
        raise SystemExit("ninja failed")


if __name__ == "__main__":
    sys.exit(main())
