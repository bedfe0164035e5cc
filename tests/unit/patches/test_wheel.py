"""A patched wheel as a file: reproducible, whole, and refused where its metadata is not."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from patch_wheels import diff, digest, locked, make_wheel

from builder.errors import PatchError
from builder.patches.revision import PROVENANCE
from builder.patches.stage import patched_wheel, revise
from builder.patches.status import Candidate

FILES = {"vllm/__init__.py": b"WORD = 'old'\n", "vllm/kept.py": b"KEPT = 1\n",
         "vllm/data.bin": bytes(21_000_000)}
CHANGE = diff("vllm/__init__.py", "WORD = 'old'\n", "WORD = 'new'\n") \
    + diff("vllm/added.py", None, "ADDED = 1\n")
DELETE = diff("vllm/kept.py", "KEPT = 1\n", None)
NAME = "vllm-1.0+sy.7"


def record_is_true(files: Mapping[str, bytes], info: str) -> bool:
    """Say whether RECORD tells the hash of every file, and of no file that is not there."""
    rows = {row[0]: row[1] for row in csv.reader(files[f"{info}/RECORD"].decode().splitlines())}
    inside = {name: data for name, data in files.items() if not name.startswith("opt/")}
    return rows == {name: "" if name.endswith("/RECORD") else digest(data)
                    for name, data in inside.items()}


def test_the_wheel_file_is_reproducible_and_whole(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, FILES)
    made = []
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        revision = revise(locked(source), source, [Candidate("#7", "7", CHANGE + DELETE)])[1]
        assert revision is not None
        made.append(patched_wheel(revision, source, tmp_path / name))
    assert made[0].name == "vllm-1.0+sy.7-py3-none-any.whl"
    assert made[0].read_bytes() == made[1].read_bytes()
    assert [path.name for path in (tmp_path / "1").iterdir()] == [made[0].name]
    with zipfile.ZipFile(made[0]) as archive:
        assert archive.testzip() is None
        files = {name: archive.read(name) for name in archive.namelist()}
    assert set(files) == {"vllm/__init__.py", "vllm/added.py", "vllm/data.bin", *(
        f"{NAME}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", PROVENANCE))}
    assert record_is_true(files, f"{NAME}.dist-info")
    assert made[0].stat().st_size < 100_000  # what has not changed is still compressed


@pytest.mark.parametrize(("name", "data"), [
    ("RECORD", b"a,b,c,d\n"), ("RECORD", b"\xff\n"), ("METADATA", None), ("RECORD", None)])
def test_a_wheel_whose_metadata_is_not_whole_cannot_be_patched(tmp_path: Path, name: str,
                                                               data: bytes | None) -> None:
    whole = make_wheel(tmp_path, {"vllm/__init__.py": b"A = 1\n"})
    damaged = tmp_path / "damaged" / whole.name
    damaged.parent.mkdir()
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(damaged, "w") as new:
        for item in old.namelist():
            changed = data if item.endswith(name) else old.read(item)
            if changed is not None:
                new.writestr(item, changed)
    candidate = Candidate("o/r#1", "1", diff("vllm/__init__.py", "A = 1\n", "A = 2\n"))
    _, revision = revise(locked(damaged), damaged, [candidate])
    assert revision is not None
    with pytest.raises(PatchError, match="RECORD"):
        patched_wheel(revision, damaged, tmp_path / "damaged")
    assert [path.name for path in damaged.parent.iterdir()] == [whole.name]

