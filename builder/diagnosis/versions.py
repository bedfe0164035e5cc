"""Which versions a log itself names: vLLM's banner and engine, and vLLM's collect_env report."""

from __future__ import annotations

import re
from collections.abc import Iterable

VERSION = r"(?P<version>\d+(?:\.\w+)+(?:\+[\w.]+)?)"
VLLM = re.compile(r"(?:Initializing a V1 LLM engine \(v|API server version |█ +version |"
                  rf"^vLLM Version *: *v?){VERSION}")
TORCH = re.compile(rf"^PyTorch version *: *{VERSION}")
PACKAGE = re.compile(rf"^\[(?:pip3|conda)\] (?P<name>[a-z][\w-]*)(?:==| +){VERSION}")


def versions_in(lines: Iterable[str]) -> dict[str, str]:
    """Return distribution -> version, as far as the lines of a log name them; the first counts."""
    versions: dict[str, str] = {}
    for line in lines:
        if match := VLLM.search(line):
            versions.setdefault("vllm", match["version"])
        elif match := TORCH.search(line):
            versions.setdefault("torch", match["version"])
        elif match := PACKAGE.search(line):
            versions.setdefault(match["name"].lower(), match["version"])
    return versions
