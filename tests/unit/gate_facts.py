"""Hand-made facts of wheels and a base, for the gate's tests."""

from __future__ import annotations

from typing import Any

from builder.binaries.facts import BaseFacts, ElfFacts, WheelFacts

TOOLS = ("gcc", "ld", "libc headers", "Python.h", "ldconfig")
NVIDIA = ("nvidia/cu13/bin/nvcc", "nvidia/cu13/bin/ptxas",
          "nvidia/cu13/include/cccl/cuda/std/version")


def a_wheel(name: str, version: str = "1.0", *, tag: str = "py3-none-any",
            requires: tuple[str, ...] = (), members: tuple[str, ...] = (), **more: Any
            ) -> WheelFacts:
    """Return a wheel; each member's digest is its own name unless it says ``path=digest``."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(
        f"Requires-Dist: {text}\n" for text in requires)
    pairs = tuple((member.partition("=")[0], member.partition("=")[2] or member)
                  for member in members)
    return WheelFacts(f"{name.replace('-', '_')}-{version}-{tag}.whl", "0" * 64, name, version,
                      metadata=metadata, members=pairs, **more)


def a_base(*, tools: tuple[str, ...] = TOOLS, libraries: tuple[ElfFacts, ...] = ()) -> BaseFacts:
    """Return a Debian 12 for aarch64."""
    return BaseFacts("slim", "sha256:" + "1" * 64, "linux/arm64", "3.11", "2.36",
                     libraries=libraries, tools=tools)
