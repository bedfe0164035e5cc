"""A package ``torch`` that answers what a build system asks of torch, without loading it.

The real one is for another processor. Its flags for nvcc are read out of its own source.
"""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = """\
__version__ = {version!r}
from . import utils
"""
UTILS = "cmake_prefix_path = {prefix!r}\nfrom . import cpp_extension\n"
EXTENSION = "COMMON_NVCC_FLAGS = {flags!r}\n"


def write(real: Path, place: Path) -> None:
    """Write the package below ``place``; ``real`` is the unpacked one."""
    package = place / "torch"
    (package / "utils").mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE.format(version=_assigned(
        real / "version.py", "__version__")))
    (package / "utils" / "__init__.py").write_text(UTILS.format(prefix=str(real / "share/cmake")))
    (package / "utils" / "cpp_extension.py").write_text(EXTENSION.format(flags=_assigned(
        real / "utils" / "cpp_extension.py", "COMMON_NVCC_FLAGS")))


def _assigned(source: Path, name: str) -> object:
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and any(
                isinstance(each, ast.Name) and each.id == name for each in node.targets):
            return ast.literal_eval(node.value)
    raise SystemExit(f"torch's {source.name} sets no {name}")
