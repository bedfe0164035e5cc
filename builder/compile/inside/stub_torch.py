"""A package ``torch`` that answers what a build system asks of torch, without loading it.

The real one is for another processor. Its version, its CUDA and its flags for nvcc are read out of
its own source.
"""

from __future__ import annotations

import ast
from pathlib import Path

# FlashInfer's generator asks for types of elements with their sizes, and for the ABI of the C++
# library: every torch has the new one since 2.7.
PACKAGE = """\
import re
from types import SimpleNamespace
__version__ = {version!r}


class dtype:
    def __init__(self, name):
        self.name, self.itemsize = name, int(re.search(r"\\d+", name)[0]) // 8

    def __repr__(self):
        return "torch." + self.name


for _name in ("bfloat16 float16 float32 float64 float8_e4m3fn float8_e5m2 float8_e8m0fnu "
              "int8 int16 int32 int64 uint8 uint16 uint32 uint64").split():
    globals()[_name] = dtype(_name)
version = SimpleNamespace(cuda={cuda!r}, hip=None)
cuda = SimpleNamespace(device_count=lambda: 0, is_available=lambda: False)
_C = SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)
from . import utils
"""
UTILS = "cmake_prefix_path = {prefix!r}\nfrom . import cpp_extension\n"
EXTENSION = "COMMON_NVCC_FLAGS = {flags!r}\n"


def write(real: Path, place: Path) -> None:
    """Write the package below ``place``; ``real`` is the unpacked one."""
    package = place / "torch"
    (package / "utils").mkdir(parents=True)
    version = real / "version.py"
    (package / "__init__.py").write_text(PACKAGE.format(
        version=_assigned(version, "__version__"), cuda=_assigned(version, "cuda")))
    (package / "utils" / "__init__.py").write_text(UTILS.format(prefix=str(real / "share/cmake")))
    (package / "utils" / "cpp_extension.py").write_text(EXTENSION.format(flags=_assigned(
        real / "utils" / "cpp_extension.py", "COMMON_NVCC_FLAGS")))


def _assigned(source: Path, name: str) -> object:
    for node in ast.parse(source.read_text()).body:
        names = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        if any(isinstance(each, ast.Name) and each.id == name for each in names):
            return ast.literal_eval(node.value)  # type: ignore[attr-defined]
    raise SystemExit(f"torch's {source.name} sets no {name}")
