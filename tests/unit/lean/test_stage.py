"""A closure trimmed: real wheels in, installable wheels out, once."""

from __future__ import annotations

import csv
import hashlib
import json
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from lean_files import PAGE, SASS, Code, Library, region
from patch_wheels import locked, make_wheel

from builder.fetch.wheels import FetchedWheels
from builder.lean import stage
from builder.lean.stage import LeanClosure, trim_closure
from builder.lean.wheel import NOTE
from builder.locking.lock import Lock
from builder.patches.revision import as_patched
from builder.store.content_store import Store

GPU = "sm_121"
LIBRARY = Library([region(Code(SASS, 80, payload=b"x" * 8 * PAGE), Code(SASS, 120))]).build()
FILES = {"vllm/__init__.py": b"WORD = 1\n", "vllm/_C.abi3.so": LIBRARY,
         "vllm/tests/test_word.py": b"assert True\n", "vllm/plain.so": b"no library"}


def closure(tmp_path: Path, files: dict[str, bytes] | None = None) -> tuple[LeanClosure, Store]:
    """Trim a closure of one wheel, in a store that a second call finds again."""
    path = make_wheel(tmp_path, files or FILES)
    wheel, store = locked(path), Store(tmp_path / "store")
    lock = Lock(cell="c", intent="i", python="3.11", platform="p", wheels=(wheel,))
    return trim_closure(FetchedWheels(lock, {wheel: path}), GPU, store), store


def test_the_trimmed_wheel_says_what_it_is_and_holds_what_its_record_lists(tmp_path: Path) -> None:
    lean, _ = closure(tmp_path)
    (wheel,) = lean.wheels.lock.wheels
    assert wheel.version == "1.0+lean.sm121"
    assert wheel.sha256 == hashlib.sha256(lean.wheels.paths[wheel].read_bytes()).hexdigest()
    with zipfile.ZipFile(lean.wheels.paths[wheel]) as archive:
        info = f"vllm-{wheel.version}.dist-info"
        assert f"Version: {wheel.version}\n".encode() in archive.read(f"{info}/METADATA")
        taken = json.loads(archive.read(f"{info}/{NOTE}"))["taken"]
        assert set(taken) == {"vllm/_C.abi3.so", "vllm/tests/test_word.py"}
        rows = {row[0]: row[1:] for row in csv.reader(
            archive.read(f"{info}/RECORD").decode().splitlines())}
        assert set(rows) == set(archive.namelist())
        for name in archive.namelist():
            data = archive.read(name)
            if not name.endswith("/RECORD"):
                digest = urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
                assert rows[name] == [f"sha256={digest}", str(len(data))]
        assert len(archive.read("vllm/_C.abi3.so")) < len(LIBRARY) - 6 * PAGE
        assert archive.read("vllm/plain.so") == b"no library"


def test_a_second_run_reads_no_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = closure(tmp_path)
    monkeypatch.setattr(stage, "trim_wheel", lambda *_: pytest.fail("it is kept"))
    second, _ = closure(tmp_path)
    assert second.wheels.lock == first.wheels.lock
    assert second.saved == first.saved


def test_a_damaged_note_of_what_was_made_is_made_again(tmp_path: Path) -> None:
    first, store = closure(tmp_path)
    for index in (store.root / "lean").iterdir():
        index.write_text("{half")
    assert closure(tmp_path)[0].wheels.lock == first.wheels.lock


def test_a_wheel_with_nothing_to_take_stays_the_published_one(tmp_path: Path) -> None:
    lean, _ = closure(tmp_path, {"vllm/__init__.py": b"WORD = 1\n"})
    (wheel,) = lean.wheels.lock.wheels
    assert wheel.version == "1.0"
    assert lean.labels == {}
    assert lean.saved[0].wheel is None


def test_an_image_of_the_closure_is_known_by_its_labels(tmp_path: Path) -> None:
    lean, _ = closure(tmp_path)
    whole = lean.wheels.lock.model_copy(update={"wheels": (
        lean.wheels.lock.wheels[0].model_copy(update={"version": "1.0"}),)})
    assert as_patched(whole, lean.labels).wheels[0].version == "1.0+lean.sm121"
