"""Which versions a log itself names: vLLM's, from its banner or its engine."""

from __future__ import annotations

import re
from collections.abc import Iterable

VLLM = re.compile(r"(?:Initializing a V1 LLM engine \(v|API server version |█ +version )"
                  r"(?P<version>\d+(?:\.\w+)+)")


def versions_in(lines: Iterable[str]) -> dict[str, str]:
    """Return distribution -> version, as far as the lines of a log name them."""
    match = next(filter(None, map(VLLM.search, lines)), None)
    return {"vllm": match["version"]} if match else {}
