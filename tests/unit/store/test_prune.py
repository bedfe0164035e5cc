"""The cache: what it holds, what goes, and what must stay."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from builder.locking.lock import LockedWheel
from builder.store.content_store import Store
from builder.store.prune import DAY_S, removable, remove, usage

LONG_AGO = time.time() - 100 * DAY_S


def add_wheel(store: Store, data: bytes, *, old: bool = True) -> LockedWheel:
    wheel = LockedWheel(name="a", version="1", file="a-1-py3-none-any.whl", index="default",
                        sha256=hashlib.sha256(data).hexdigest(), size=len(data))
    with store.temporary("w") as path:
        path.write_bytes(data)
        placed = store.add_wheel(wheel, path)
    if old:
        os.utime(placed, (LONG_AGO, LONG_AGO))
    return wheel


def add_layer(store: Store, data: bytes, key: str) -> Path:
    with store.temporary("l") as path:
        path.write_bytes(data)
        layer = store.add_layer(key * 64, path, hashlib.sha256(data).hexdigest(), len(data))
    os.utime(layer.path, (LONG_AGO, LONG_AGO))
    os.utime(store.root / "keys" / f"{key * 64}.json", (LONG_AGO, LONG_AGO))
    return layer.path


def test_only_old_wheels_that_no_lock_names_go(tmp_path: Path) -> None:
    store = Store(tmp_path)
    locked, loose = add_wheel(store, b"locked"), add_wheel(store, b"loose")
    fresh = add_wheel(store, b"fresh", old=False)
    items = removable(tmp_path, {locked.sha256}, 14)
    assert [item.size for item in items] == [5]
    remove(store, items)
    assert store.find_wheel(loose) is None
    assert not (tmp_path / "wheels" / loose.sha256).exists()
    assert store.find_wheel(locked)
    assert store.find_wheel(fresh)


def test_a_layer_lives_as_long_as_it_is_found(tmp_path: Path) -> None:
    store = Store(tmp_path)
    used, unused = add_layer(store, b"used", "a"), add_layer(store, b"unused", "b")
    assert store.find_layer("a" * 64)  # marks its use
    remove(store, removable(tmp_path, (), 14))
    assert used.exists()
    assert not unused.exists()
    assert store.find_layer("b" * 64) is None


def test_cut_off_downloads_go(tmp_path: Path) -> None:
    store = Store(tmp_path)
    partial = tmp_path / "partial" / ("c" * 64)
    partial.write_bytes(b"half")
    assert removable(tmp_path, (), 14) == []
    os.utime(partial, (LONG_AGO, LONG_AGO))
    remove(store, removable(tmp_path, (), 14))
    assert not partial.exists()


def test_every_folder_is_counted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    add_wheel(store, b"12345")
    (tmp_path / "records").mkdir()
    found = {one.name: (one.files, one.size) for one in usage(tmp_path)}
    assert found["wheels"] == (1, 5)
    assert found["records"] == (0, 0)


def test_what_our_naming_does_not_prove_ours_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    loose = add_wheel(store, b"loose")
    theirs = [tmp_path / name for name in (
        "wheels/mine/photo.whl", f"wheels/{loose.sha256}/notes.txt", "layers/backup.tar",
        "partial/thesis", f"partial/{'d' * 64}.bak")]
    for path in theirs:
        path.parent.mkdir(exist_ok=True)
        path.write_text("the user's")
        os.utime(path, (LONG_AGO, LONG_AGO))
    (tmp_path / "layers" / f"{'e' * 64}.tar").symlink_to(theirs[2])
    (tmp_path / "wheels" / ("f" * 64)).symlink_to(theirs[0].parent)
    remove(store, removable(tmp_path, (), -1))
    assert store.find_wheel(loose) is None
    assert [path.read_text() for path in theirs] == ["the user's"] * len(theirs)


def test_a_clock_that_was_set_back_prunes_nothing_too_early(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    wheel = add_wheel(store, b"fresh", old=False)
    for shift in (-DAY_S, DAY_S):
        now = time.time() + shift
        monkeypatch.setattr("builder.store.prune.time.time", lambda now=now: now)
        assert removable(tmp_path, (), 14) == []
    assert store.find_wheel(wheel)


def test_compiled_files_go_unless_a_lock_names_their_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for letter in "abc":
        made = tmp_path / "compiled" / (letter * 64)
        (made / "files/spam").mkdir(parents=True)
        (made / "files/spam/_C.so").write_bytes(b"12345")
        (made / "rebuilt.json").write_text("{}")
        record = tmp_path / "compiled" / f"{letter * 63}0.json"
        record.write_text("{}")
        for path in (made / "rebuilt.json", record) if letter != "c" else ():
            os.utime(path, (LONG_AGO, LONG_AGO))
    items = removable(tmp_path, {"a" * 64, f"{'a' * 63}0"}, 14)
    assert [item.what for item in items] == [
        "compiled bbbbbbbbbbbb", "record of the wheel bbbbbbbbbbbb"]
    assert items[0].size == 5
    assert items[0].paths[0].name == "rebuilt.json", "nothing is under the key from here on"
    remove(store, items)
    assert sorted(path.name[0] for path in (tmp_path / "compiled").iterdir()) == [*"aacc"]
