"""A variable is found in the wheel that reads it; one that no wheel reads is not."""

from __future__ import annotations

import hashlib
from pathlib import Path

import fake_vllm

from builder.locking.lock import Lock, LockedWheel
from builder.recipes.environment import NATIVE, reader, reads
from builder.recipes.wheel_sources import WheelSources
from builder.store.content_store import Store


def test_text_and_attributes_count_and_parts_of_words_do_not(tmp_path: Path) -> None:
    sources = WheelSources(fake_vllm.wheel(tmp_path))
    assert reads(sources, "VLLM_SPACE")
    assert reads(sources, "MAX_JOBS")
    assert not reads(sources, "VLLM_SPAC")
    assert not reads(sources, "LLM_SPACE")


def test_other_wheels_of_the_lock_are_searched(tmp_path: Path) -> None:
    path = fake_vllm.wheel(tmp_path, "hub-1-py3-none-any.whl", hub='x = getenv("HUB_OFFLINE")\n')
    data = path.read_bytes()
    locked = LockedWheel(name="hub", version="1", file=path.name, size=len(data), index="default",
                         sha256=hashlib.sha256(data).hexdigest())
    absent = locked.model_copy(update={"file": "gone-1-py3-none-any.whl", "sha256": "0" * 64})
    lock = Lock(cell="c", intent="i", python="3.12", platform="x", wheels=(absent, locked))
    store = Store(tmp_path / "cache")
    store.add_wheel(locked, path)
    first = WheelSources(fake_vllm.wheel(tmp_path))
    assert reader("HUB_OFFLINE", lock, store, [first]) == "hub-1-py3-none-any.whl"
    assert reader("VLLM_SPACE", lock, store, [first]) == first.wheel.name
    assert reader("NOBODY_READS_THIS", lock, store, [first]) is None


def test_variables_of_native_libraries_are_told_apart() -> None:
    assert NATIVE.match("NCCL_SOCKET_IFNAME")
    assert NATIVE.match("LD_PRELOAD")
    assert not NATIVE.match("VLLM_NCCL_SO_PATH")
