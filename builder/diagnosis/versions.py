"""Which versions a log itself names: vLLM's banner, and what collectors of facts print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

VERSION = r"(?P<version>\d+(?:\.\w+)+(?:\+[\w.]+)?)"
VLLM = re.compile(r"(?:Initializing an? (?:V1 )?LLM engine \(v|API server version |█ +version |"
                  rf"^vLLM [Vv]ersion *: *v?){VERSION}")
TORCH = re.compile(rf"^Py[Tt]orch(?: version)? *: *{VERSION}")
PACKAGE = re.compile(rf"^\[(?:pip3|conda)\] (?P<name>[a-z][\w-]*)(?:==| +){VERSION}")
# What sglang.check_env and flashinfer.collect_env print, one to a line.
LISTED = re.compile(r"^(?P<name>sglang|sgl[-_]kernel|sglang-kernel|flashinfer(?:[-_]python)?|"
                    rf"triton|transformers|xgrammar)(?: version)? *: *{VERSION}$")
OTHERS = (("nvidia-driver", re.compile(rf"(?:Driver Version:|driver version *:) *{VERSION}")),
          ("nccl", re.compile(rf"(?:using nccl==|NCCL version ){VERSION}")),
          ("ray", re.compile(rf"^\s*Ray: {VERSION}")))


def versions_in(lines: Iterable[str]) -> dict[str, str]:
    """Return distribution -> version, as far as the lines of a log name them; the first counts."""
    versions: dict[str, str] = {}
    for line in lines:
        for name, version in _named(line):
            versions.setdefault(name.lower().replace("_", "-"), version)
    return versions


def _named(line: str) -> Iterator[tuple[str, str]]:
    if match := VLLM.search(line):
        yield "vllm", match["version"]
    elif match := TORCH.search(line):
        yield "torch", match["version"]
    elif match := PACKAGE.search(line) or LISTED.search(line):
        yield match["name"], match["version"]
    else:
        yield from ((name, match["version"]) for name, pattern in OTHERS
                    if (match := pattern.search(line)))
