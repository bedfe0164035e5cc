"""How the scripts inside an image report: one ``@@`` line per result."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SPEC = Path(__file__).with_name("spec.json")


def spec() -> dict[str, Any]:
    """Return the task that the host has written beside this script."""
    task: dict[str, Any] = json.loads(SPEC.read_text(encoding="utf-8"))
    return task


def say(check: str, status: str, detail: str = "", seconds: float = 0.0) -> None:
    """Print one result; ``status`` is ``pass``, ``fail`` or ``not applicable``."""
    row = {"check": check, "status": status, "detail": detail, "seconds": round(seconds, 2)}
    sys.stdout.write("\n@@ " + json.dumps(row) + "\n")
    sys.stdout.flush()


class Wrong(Exception):  # noqa: N818 - a finding, not a defect of the script
    """The check's answer is no; the text says why."""


@contextmanager
def check(name: str) -> Iterator[list[str]]:
    """Run one check: what is appended to the list is its detail; an exception is a failure."""
    started, detail = time.monotonic(), list[str]()
    try:
        yield detail
    except Wrong as error:
        say(name, "fail", str(error), time.monotonic() - started)
    except Exception as error:  # noqa: BLE001 - whatever an import raises is the result
        traceback.print_exc()
        say(name, "fail", f"{type(error).__name__}: {error}"[:2000], time.monotonic() - started)
    else:
        say(name, "pass", "; ".join(detail), time.monotonic() - started)
