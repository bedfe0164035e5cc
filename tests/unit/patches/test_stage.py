"""The patch stage: from locked wheels and their series to an overlay or a repacked wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from patch_wheels import diff
from patched_layers import (
    CHANGE,
    DELETE,
    FILES,
    MINOR,
    NAME,
    image,
    patched,
    record_is_true,
)

from builder.errors import PatchError
from builder.fetch.wheels import FetchedWheels
from builder.locking.lock import Lock
from builder.patches.stage import apply_series, series_digest
from builder.patches.status import Candidate
from builder.store.content_store import Store


def test_a_deletion_repacks_the_wheel(tmp_path: Path) -> None:
    result, layers = patched(tmp_path, CHANGE + DELETE)
    assert [layer.facts["kind"] for layer in layers] == ["folders", "wheel", "environment"]
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
    assert len(layers) == 3


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
    assert series_digest({}) == ""
