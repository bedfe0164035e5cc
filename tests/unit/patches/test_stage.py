"""The patch stage: from locked wheels and their series to an overlay or a repacked wheel."""

from __future__ import annotations

import csv
import platform
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from patch_wheels import diff, digest, locked, make_wheel

from builder.errors import PatchError
from builder.fetch.wheels import FetchedWheels
from builder.layers.assemble import make_layers
from builder.layers.bytecode import compiler_here
from builder.locking.lock import Lock
from builder.patches.stage import (
    NO_SERIES,
    Patched,
    apply_series,
    series_digest,
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


def test_a_deletion_repacks_the_wheel(tmp_path: Path) -> None:
    result, layers = patched(tmp_path, CHANGE + DELETE)
    assert [layer.facts["kind"] for layer in layers] == ["wheel", "environment"]
    assert result.wheels.lock.wheels[0].version == "1.0+sy.7"
    files = image(layers)
    assert not any("kept" in name for name in files)
    assert files["vllm/__init__.py"] == b"WORD = 'new'\n"
    assert record_is_true(files, f"{NAME}.dist-info")


def test_a_patch_that_does_not_apply_leaves_no_layer(tmp_path: Path) -> None:
    with pytest.raises(PatchError) as error:
        patched(tmp_path, CHANGE + diff("vllm/kept.py", "other\n", "x\n"))
    assert error.value.exit_code == 6
    assert not list((tmp_path / "store" / "layers").iterdir())


def test_a_series_that_is_all_upstream_changes_nothing(tmp_path: Path) -> None:
    result, layers = patched(tmp_path, CHANGE, {**FILES, "vllm/__init__.py": b"WORD = 'new'\n",
                                                "vllm/added.py": b"ADDED = 1\n"})
    assert result.versions == {}
    assert "already upstream" in result.warnings[0]
    assert len(layers) == 2


def test_patches_for_a_wheel_that_is_not_there(tmp_path: Path) -> None:
    lock = Lock(cell="c", intent="i", python=MINOR, platform="p", wheels=())
    with pytest.raises(PatchError, match="has no wheel"):
        apply_series(FetchedWheels(lock, {}), {"vllm": [Candidate("#7", "7", CHANGE)]},
                     Store(tmp_path))


def test_the_digest_of_a_series_depends_on_its_bytes_and_is_empty_without_patches() -> None:
    one = series_digest({"vllm": [Candidate("#7", "7", CHANGE)]})
    assert one
    assert one != series_digest({"vllm": [Candidate("#7", "7", DELETE)]})
    assert one == series_digest({"vllm": [Candidate("#7", "7", CHANGE)], "torch": []})
    assert series_digest(NO_SERIES) == ""
