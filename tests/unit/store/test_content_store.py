"""The store: what may be trusted, what is found wrong, what concurrent processes may do."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from builder.errors import LockError, UsageError
from builder.locking.lock import LockedWheel
from builder.store import verification as stamps
from builder.store.content_store import Store

KEY = "ab" * 32


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def wheel_of(data: bytes, name: str = "demo") -> LockedWheel:
    return LockedWheel(name=name, version="1.0", file=f"{name}-1.0-py3-none-any.whl",
                       sha256=hashlib.sha256(data).hexdigest(), size=len(data), index="default")


def put_wheel(store: Store, data: bytes) -> tuple[LockedWheel, Path]:
    wheel = wheel_of(data)
    with store.temporary(wheel.file) as path:
        path.write_bytes(data)
        return wheel, store.add_wheel(wheel, path)


def put_layer(store: Store, data: bytes, key: str = KEY) -> str:
    digest = hashlib.sha256(data).hexdigest()
    with store.temporary("layer.tar") as path:
        path.write_bytes(data)
        store.add_layer(key, path, digest, len(data), {"files": 3})
    return digest


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Collect the files that are read to be hashed."""
    seen: list[Path] = []
    real = stamps.sha256_file

    def spy(path: Path) -> str:
        seen.append(path)
        return real(path)

    monkeypatch.setattr(stamps, "sha256_file", spy)
    return seen


def test_a_stored_wheel_is_found_without_reading_it(store: Store, hashed: list[Path]) -> None:
    wheel, path = put_wheel(store, b"wheel bytes")
    assert store.find_wheel(wheel) == path == store.wheel_path(wheel)
    assert path.read_bytes() == b"wheel bytes"
    assert hashed == []


def test_a_wrong_size_in_a_lock_is_the_locks_fault_and_costs_no_wheel(
        store: Store, hashed: list[Path]) -> None:
    wheel, path = put_wheel(store, b"wheel bytes")
    edited = wheel.model_copy(update={"size": 12})
    for _ in range(2):
        with pytest.raises(LockError, match=r"has 12 bytes; .* has 11"):
            store.find_wheel(edited)
        os.utime(path, (1, 1))  # no stamp fits any more: the bytes are read again
    assert path.read_bytes() == b"wheel bytes"
    assert hashed == [path]
    assert store.find_wheel(wheel) == path


def test_a_wrong_size_in_a_key_costs_no_layer(store: Store) -> None:
    digest = put_layer(store, b"tar bytes")
    key = store.root / "keys" / f"{KEY}.json"
    key.write_text(key.read_text().replace('"size": 9', '"size": 8'))
    assert store.find_layer(KEY) is None
    assert store.layer_path(digest).read_bytes() == b"tar bytes"


def test_an_absent_wheel_is_not_found(store: Store) -> None:
    assert store.find_wheel(wheel_of(b"never stored")) is None


def test_a_touched_wheel_is_read_once_and_trusted_again(store: Store, hashed: list[Path]) -> None:
    wheel, path = put_wheel(store, b"wheel bytes")
    os.utime(path, (1, 1))
    assert store.find_wheel(wheel) == path
    assert store.find_wheel(wheel) == path
    assert hashed == [path]


@pytest.mark.parametrize("data", [b"Wheel bytes", b"wheel", b"wheel bytes and more"],
                         ids=["same size", "cut short", "too long"])
def test_altered_wheel_is_removed(store: Store, data: bytes,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    wheel, path = put_wheel(store, b"wheel bytes")
    path.chmod(0o644)
    path.write_bytes(data)
    assert store.find_wheel(wheel) is None
    assert not path.exists()
    assert "altered or cut short" in capsys.readouterr().err


def test_same_size_and_same_modification_time_do_not_hide_a_change(store: Store) -> None:
    wheel, path = put_wheel(store, b"wheel bytes")
    before = path.stat()
    path.chmod(0o644)
    path.write_bytes(b"WHEEL BYTES")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.find_wheel(wheel) is None


def test_a_damaged_stamp_only_costs_a_reading(store: Store, hashed: list[Path]) -> None:
    wheel, path = put_wheel(store, b"wheel bytes")
    (store.root / "stamps" / f"{wheel.sha256}.json").write_text("{broken")
    assert store.find_wheel(wheel) == path
    assert hashed == [path]


def test_a_layer_is_found_by_its_inputs_with_its_facts(store: Store) -> None:
    digest = put_layer(store, b"tar bytes")
    found = store.find_layer(KEY)
    assert found is not None
    assert (found.digest, found.size, found.facts) == (digest, 9, {"files": 3})
    assert found.path == store.layers / f"{digest}.tar"
    assert store.find_layer("cd" * 32) is None


def test_equal_layers_of_other_inputs_share_one_file(store: Store) -> None:
    put_layer(store, b"tar bytes")
    inode = next(store.layers.iterdir()).stat().st_ino
    put_layer(store, b"tar bytes", "cd" * 32)
    assert [path.stat().st_ino for path in store.layers.iterdir()] == [inode]
    assert store.find_layer("cd" * 32) is not None


def test_a_layer_altered_to_the_same_size_is_not_found(store: Store) -> None:
    digest = put_layer(store, b"tar bytes")
    path = store.layer_path(digest)
    path.chmod(0o644)
    path.write_bytes(b"TAR bytes")
    assert store.find_layer(KEY) is None
    assert list(store.layers.iterdir()) == []


def test_a_damaged_key_is_like_an_absent_one(store: Store) -> None:
    put_layer(store, b"tar bytes")
    (store.root / "keys" / f"{KEY}.json").write_text("[1]")
    assert store.find_layer(KEY) is None


def test_a_layer_of_another_size_than_said_is_refused(store: Store) -> None:
    with store.temporary("layer.tar") as path:
        path.write_bytes(b"tar bytes")
        with pytest.raises(ValueError, match="not 10"):
            store.add_layer(KEY, path, "0" * 64, 10)
    assert list(store.layers.iterdir()) == []


@pytest.mark.parametrize("key", ["../../etc/passwd", "AB" * 32, "ab" * 31, ""])
def test_only_digests_enter_a_path(store: Store, key: str) -> None:
    with pytest.raises(ValueError, match="not a sha256"):
        store.find_layer(key)


def _fail_after_writing(path: Path) -> None:
    path.write_bytes(b"half")
    raise ZeroDivisionError


def test_temporary_is_removed_on_failure(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.temporary("x.tar") as path:
        _fail_after_writing(path)
    assert list((store.root / "tmp").iterdir()) == []


def use(root: Path) -> None:
    """Work in a store, which sweeps it."""
    with Store(root).temporary("x"):
        pass


def test_a_living_process_keeps_its_temporary_and_a_killed_one_does_not(tmp_path: Path) -> None:
    script = ("import sys, pathlib; from builder.store.content_store import Store\n"
              "with Store(pathlib.Path(sys.argv[1])).temporary('x.tar') as path:\n"
              "    path.write_bytes(b'half'); print(path, flush=True); sys.stdin.read()")
    child = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        path = Path(child.stdout.readline().strip())
        use(tmp_path)
        assert path.exists()
        child.send_signal(signal.SIGKILL)
    Store(tmp_path)
    assert path.exists(), "opening a store removes nothing"
    use(tmp_path)
    assert not path.parent.exists()


def test_a_sweep_leaves_what_our_naming_does_not_prove_ours(tmp_path: Path) -> None:
    Store(tmp_path)
    theirs = tmp_path / "tmp" / "thesis"
    theirs.mkdir()
    (theirs / "chapter.txt").write_text("text")
    (tmp_path / "tmp" / "work-abcdefgh").symlink_to(theirs)
    (tmp_path / "tmp" / "work-12345678").write_text("a file")
    use(tmp_path)
    assert (theirs / "chapter.txt").read_text() == "text"
    assert (tmp_path / "tmp" / "work-12345678").exists()


def test_alone_refuses_while_another_store_is_open(tmp_path: Path) -> None:
    first = Store(tmp_path)
    second = Store(tmp_path)
    with pytest.raises(UsageError, match="another run of Sparkyard"), first.alone():
        pass
    del second
    with first.alone():
        pass


def test_a_folder_that_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        Store(tmp_path / "file" / "cache")
