"""Layers from small wheels, with this machine's Python as the base's: same bytes, right places."""

from __future__ import annotations

import hashlib
import platform
import struct
import sys
import tarfile
from pathlib import Path

import pytest
from bytecode_here import compiler_here
from hand_made_wheels import make_wheel, record_hash

from builder.errors import LockError, UsageError
from builder.fetch.wheels import FetchedWheels
from builder.layers.assemble import make_layers
from builder.locking.lock import Lock, LockedWheel
from builder.store.content_store import Store, StoredLayer

PYTHON = platform.python_version()
MINOR = ".".join(PYTHON.split(".")[:2])
SITE = f"opt/sparkyard/lib/python{MINOR}/site-packages"
ALPHA = {"alpha/__init__.py": b"WORDS = {'a', 'b', 'c'}\n", "alpha/old.py": b"print 'python 2'\n",
         "alpha-1.0.data/scripts/run-alpha": b"#!python\nprint('hello')\n",
         "alpha-1.0.data/data/share/alpha.txt": b"data\n",
         "alpha-1.0.dist-info/entry_points.txt": b"[console_scripts]\nalpha = alpha:main\n"}


def build(folder: Path, *wheels: Path, python: str = PYTHON) -> tuple[StoredLayer, ...]:
    """Make the layers of ``wheels`` in a store of their own."""
    locked = {LockedWheel(name=path.name.split("-")[0], version="1.0", file=path.name,
                          sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
                          size=path.stat().st_size, index="default"): path for path in wheels}
    lock = Lock(cell="c", intent="i", python=MINOR, platform="p", wheels=tuple(locked))
    with compiler_here(python, sys.executable) as compiler:
        return tuple(make_layers(FetchedWheels(lock, locked), python, Store(folder), compiler))


def members(layer: StoredLayer) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(layer.path) as tar:
        return {member.name: member for member in tar}


def read(layer: StoredLayer, name: str) -> bytes:
    with tarfile.open(layer.path) as tar:
        found = tar.extractfile(name)
        assert found is not None
        return found.read()


def test_two_stores_get_the_same_layers(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "alpha", ALPHA)
    first, second = build(tmp_path / "1", wheel), build(tmp_path / "2", wheel)
    assert [layer.digest for layer in first] == [layer.digest for layer in second]


def test_a_layer_is_named_by_its_bytes_and_normalised(tmp_path: Path) -> None:
    for layer in build(tmp_path / "s", make_wheel(tmp_path, "alpha", ALPHA)):
        assert hashlib.sha256(layer.path.read_bytes()).hexdigest() == layer.digest
        found = members(layer)
        assert {(item.uid, item.gid, item.uname) for item in found.values()} == {(0, 0, "")}
        assert len({item.mtime for item in found.values()}) == 1
        for name in found:
            parent = name.rpartition("/")[0]
            assert not parent or parent in found


def test_files_lie_where_an_installer_puts_them(tmp_path: Path) -> None:
    _, shared, environment = build(tmp_path / "s", make_wheel(tmp_path, "alpha", ALPHA))
    found = members(shared)
    assert f"{SITE}/alpha/__init__.py" in found
    assert "opt/sparkyard/share/alpha.txt" in found
    for script in ("run-alpha", "alpha"):
        assert found[f"opt/sparkyard/bin/{script}"].mode == 0o755
        assert read(shared, f"opt/sparkyard/bin/{script}").startswith(
            b"#!/opt/sparkyard/bin/python\n")
    assert f"{SITE}/alpha-1.0.dist-info/METADATA" in members(environment)
    assert members(environment)["opt/sparkyard/bin/python"].linkname == f"/usr/bin/python{MINOR}"


def test_record_lists_every_file_with_itsrecord_hash(tmp_path: Path) -> None:
    _, shared, environment = build(tmp_path / "s", make_wheel(tmp_path, "alpha", ALPHA))
    rows = read(environment, f"{SITE}/alpha-1.0.dist-info/RECORD").decode().splitlines()
    listed = {row.split(",")[0]: row.split(",")[1] for row in rows}
    assert listed["alpha/__init__.py"] == f"sha256={record_hash(ALPHA['alpha/__init__.py'])}"
    files = {name for name, item in members(shared).items() if item.isfile()}
    assert {name.removeprefix(f"{SITE}/") for name in files if name.startswith(SITE)} <= set(listed)


def test_bytecode_is_checked_against_its_source(tmp_path: Path) -> None:
    _, shared, _ = build(tmp_path / "s", make_wheel(tmp_path, "alpha", ALPHA))
    tag = f"cpython-{MINOR.replace('.', '')}"
    data = read(shared, f"{SITE}/alpha/__pycache__/__init__.{tag}.pyc")
    assert struct.unpack("<I", data[4:8])[0] == 0b11  # PEP 552: hash-based, and checked
    assert f"{SITE}/alpha/__pycache__/old.{tag}.pyc" not in members(shared)


def test_a_large_wheel_has_its_own_layer(tmp_path: Path) -> None:
    large = make_wheel(tmp_path, "large", {"large/data.bin": bytes(21_000_000)})
    layers = build(tmp_path / "s", make_wheel(tmp_path, "alpha", ALPHA), large)
    assert [layer.facts["kind"] for layer in layers] == [
        "folders", "wheel", "shared", "environment"]
    assert layers[1].facts["wheels"] == ["large-1.0-py3-none-any.whl"]


def test_any_user_may_write_to_the_folders_of_every_image(tmp_path: Path) -> None:
    first, *_ = build(tmp_path / "s", make_wheel(tmp_path, "alpha", ALPHA))
    other, *_ = build(tmp_path / "o", make_wheel(tmp_path, "beta", {"beta.py": b""}))
    assert first.digest == other.digest
    assert [(name, oct(item.mode)) for name, item in members(first).items()] == [
        ("cache", "0o1777"), ("cache/huggingface", "0o1777"), ("cache/runtime", "0o1777"),
        ("workspace", "0o1777")]


@pytest.mark.parametrize("member", [
    "../outside.py", "/etc/passwd", "alpha/.wh.other", "alpha/../../x",
    "alpha-1.0.data/scripts/python"])
def test_what_must_not_enter_an_image_is_refused_by_name(tmp_path: Path, member: str) -> None:
    wheel = make_wheel(tmp_path, "alpha", {member: b"x"})
    with pytest.raises(UsageError) as caught:
        build(tmp_path / "s", wheel)
    assert "alpha-1.0-py3-none-any.whl" in str(caught.value)
    assert not list((tmp_path / "s" / "layers").glob("*.tar"))


def test_another_python_than_the_lock_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "alpha", ALPHA)
    with pytest.raises(LockError, match="lock is for Python"):
        build(tmp_path / "s", wheel, python="3.9.1")


def test_an_altered_layer_is_made_again(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "alpha", ALPHA)
    before = build(tmp_path / "s", wheel)
    before[0].path.chmod(0o644)
    before[0].path.write_bytes(b"not a layer")
    after = build(tmp_path / "s", wheel)
    assert [layer.digest for layer in after] == [layer.digest for layer in before]
    assert hashlib.sha256(after[0].path.read_bytes()).hexdigest() == after[0].digest
