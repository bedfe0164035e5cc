"""A ``libcuda.so.1`` to link against: every name of ``cuda.h``, and nothing behind it.

The real one comes with the host's driver. An empty library would lose its entry under
``--as-needed``.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

NAME = re.compile(r"^\s*CUresult\s+CUDAAPI\s+(cu\w+)\s*\(", re.MULTILINE)
RENAMED = re.compile(r"^\s*#define\s+(cu\w+)\s+(cu\w+)\s*$", re.MULTILINE)


def write(header: Path, folder: Path, compiler: str) -> None:
    """Compile the stub into ``folder`` with the target's C compiler."""
    text = header.read_text(errors="replace")
    names = set(NAME.findall(text)) | {new for pair in RENAMED.findall(text) for new in pair}
    source = folder / "cuda-stub.c"
    source.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in sorted(names)))
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o",
                    str(folder / "libcuda.so.1"), str(source)], check=True)
    source.unlink()
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
