"""The compilers' launcher: run one compile and write down its seconds and its peak memory.

A child that is killed leaves a note as well; the status is handed on as it is.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path


def main(words: list[str]) -> int:
    """Run ``words`` and return the status, as a shell gives it."""
    folder = Path(os.environ["SPARKYARD_MEASURES"])
    started = time.monotonic()
    status = subprocess.run(words, check=False).returncode
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = words[words.index("-o") + 1] if "-o" in words else ""
    note = {"object": output, "seconds": round(time.monotonic() - started, 2),
            "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
            "peak_memory": usage.ru_maxrss * 1024, "status": status}
    (folder / f"{os.getpid()}-{time.time_ns()}.json").write_text(json.dumps(note))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
