"""Compiled files on this machine: whole or not there."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from compiled_extension import Gcc, make_order

from builder.errors import UsageError, VerdictError
from builder.limits import SETTINGS_BYTES
from builder.store.content_store import Store
from builder.wheels.assemble import put_together, record_of
from builder.wheels.kept import Kept, everything
from builder.wheels.order import Rebuilt

KEY = "ab" * 32


def keep(store: Store, folder: Path) -> Rebuilt:
    with store.temporary("output") as output:
        output.mkdir()
        rebuilt = Gcc().compile(make_order(folder), output)
        Kept(store).keep(rebuilt, output)
    return rebuilt


def test_what_was_kept_is_found_whole(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert Kept(store).find(KEY) is None
    rebuilt = keep(store, tmp_path)
    found = Kept(store).find(KEY)
    assert found
    assert found[0] == rebuilt
    assert (found[1] / "spam/_answer.abi3.so").stat().st_size == rebuilt.files[0].size


def test_a_second_run_with_equal_inputs_takes_the_first_ones(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert keep(store, tmp_path).files == keep(store, tmp_path).files


def test_a_damaged_file_is_as_if_it_was_not_there(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    keep(store, tmp_path)
    found = Kept(store).find(KEY)
    assert found
    (found[1] / "spam/_answer.abi3.so").write_bytes(b"cut")
    assert Kept(store).find(KEY) is None
    assert not found[1].exists()


def test_what_does_not_fit_is_removed(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    rebuilt = keep(store, tmp_path)
    assert Kept(store).find(KEY, lambda given: given == rebuilt)
    assert Kept(store).find(KEY, lambda _given: False) is None
    assert not (store.root / "compiled" / KEY).exists()


def test_everything_leaves_out_what_is_no_record(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    rebuilt = keep(store, tmp_path)
    for name, text in (("cd" * 32, "{"), ("ef" * 32, " " * (SETTINGS_BYTES + 1))):
        folder = store.root / "compiled" / name
        folder.mkdir()
        (folder / "rebuilt.json").write_text(text)
    assert everything(store.root) == [rebuilt]


def test_what_cannot_be_read_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took hours to compile; root, who runs these tests, may read everything."""
    store = Store(tmp_path / "store")
    keep(store, tmp_path)
    found = Kept(store).find(KEY)
    assert found

    def refused(path: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("builder.wheels.kept.sha256_file", refused)
    with pytest.raises(UsageError, match="cannot be read: Permission denied") as caught:
        Kept(store).find(KEY)
    assert caught.value.where.endswith("_answer.abi3.so")
    monkeypatch.undo()
    assert Kept(store).find(KEY) == found


def test_the_record_of_a_wheel(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    record = record_of(make_order(tmp_path), keep(store, tmp_path))
    assert Kept(store).record("0" * 64) is None
    Kept(store).keep_record("0" * 64, record)
    assert Kept(store).record("0" * 64) == record
    (store.root / "compiled" / f"{'0' * 64}.json").write_text("{")
    assert Kept(store).record("0" * 64) is None


def test_a_wheel_is_found_by_how_it_was_put_together(tmp_path: Path) -> None:
    store, order = Store(tmp_path / "store"), make_order(tmp_path)
    record = record_of(order, keep(store, tmp_path))
    found = Kept(store).find(KEY)
    assert found
    assert order.published
    wheel = put_together(record, order.published[1], found[1], store)
    assert Kept(store).wheel_of(record, store) is None, "nobody wrote the record down"
    Kept(store).keep_record(wheel.sha256, record)
    assert Kept(store).wheel_of(record, store) == wheel
    other = record.model_copy(update={"version": "1.0+sy.other"})
    assert Kept(store).wheel_of(other, store) is None
    store.wheel_path(wheel).write_bytes(b"cut")
    assert Kept(store).wheel_of(record, store) is None


def test_files_that_are_not_those_of_their_record_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with store.temporary("output") as output:
        output.mkdir()
        rebuilt = Gcc().compile(make_order(tmp_path), output)
        (output / rebuilt.files[0].path).write_bytes(b"other")
        with pytest.raises(VerdictError, match="not those that their record names"):
            Kept(store).keep(rebuilt, output)
    assert Kept(store).find(KEY) is None
