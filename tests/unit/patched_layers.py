"""One wheel with one patch as layers, and what the layers hold: for the tests of patches."""

from __future__ import annotations

import csv
import platform
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from bytecode_here import compiler_here
from patch_wheels import diff, digest, locked, make_wheel

from builder.fetch.wheels import FetchedWheels
from builder.layers.assemble import make_layers
from builder.locking.lock import Lock
from builder.patches.stage import (
    Patched,
    apply_series,
)
from builder.patches.status import Candidate
from builder.store.content_store import Store, StoredLayer

PYTHON = platform.python_version()
MINOR = ".".join(PYTHON.split(".")[:2])
SITE = f"opt/sparkyard/lib/python{MINOR}/site-packages"
FILES = {"vllm/__init__.py": b"WORD = 'old'\n", "vllm/kept.py": b"KEPT = 1\n",
         "vllm/data.bin": bytes(21_000_000)}
CHANGE = diff("vllm/__init__.py", "WORD = 'old'\n", "WORD = 'new'\n") \
    + diff("vllm/added.py", None, "ADDED = 1\n")
DELETE = diff("vllm/kept.py", "KEPT = 1\n", None)
NAME = "vllm-1.0+sy.7"


def patched(folder: Path, data: bytes, files: Mapping[str, bytes] = FILES
            ) -> tuple[Patched, tuple[StoredLayer, ...]]:
    """Make the layers of one wheel with one patch, in a store of their own."""
    folder.mkdir(exist_ok=True)
    path = make_wheel(folder, files)
    store, wheel = Store(folder / "store"), locked(path)
    lock = Lock(cell="c", intent="i", python=MINOR, platform="p", wheels=(wheel,))
    result = apply_series(FetchedWheels(lock, {wheel: path}),
                          {"vllm": [Candidate("#7", "7", data)]}, store)
    with compiler_here(PYTHON, sys.executable) as compiler:
        return result, tuple(make_layers(result.wheels, PYTHON, store, compiler, (),
                                         result.overlay))


def image(layers: tuple[StoredLayer, ...]) -> dict[str, bytes]:
    """Return the files of all layers, the later ones over the earlier."""
    found = {}
    for layer in layers:
        with tarfile.open(layer.path) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isfile() else None
                if stream:
                    found[member.name.removeprefix(f"{SITE}/")] = stream.read()
    return found


def record_is_true(files: Mapping[str, bytes], info: str) -> bool:
    """Say whether RECORD tells the hash of every file, and of no file that is not there."""
    rows = {row[0]: row[1] for row in csv.reader(files[f"{info}/RECORD"].decode().splitlines())}
    inside = {name: data for name, data in files.items() if not name.startswith("opt/")}
    return rows == {name: "" if name.endswith("/RECORD") else digest(data)
                    for name, data in inside.items()}
