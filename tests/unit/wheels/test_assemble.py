"""Compiled files in the published wheel: names, RECORD, provenance, and the same bytes again."""

from __future__ import annotations

import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from compiled_extension import Gcc, code, make_order
from patch_wheels import digest

from builder.errors import IntegrityError, VerdictError
from builder.indexes.settings import COMPILED
from builder.locking.lock import LockedWheel
from builder.patches.apply import Blob
from builder.process import run
from builder.store.content_store import Store
from builder.wheels.assemble import NOTE, compiled_version, put_together, record_of
from builder.wheels.order import AppliedPatch, Order, Rebuilt

CHANGES = {"csrc/answer.c": Blob(code("_answer", 42).encode())}
PATCH = AppliedPatch("owner/spam#7", "7", "f" * 64, ("csrc/answer.c",))


def compiled(folder: Path) -> tuple[Order, Rebuilt, Path]:
    order = make_order(folder, changes=CHANGES, patches=(PATCH,))
    output = folder / "output"
    output.mkdir()
    return order, Gcc().compile(order, output), output


def together(order: Order, rebuilt: Rebuilt, output: Path, store: Store) -> LockedWheel:
    published = order.published[1] if order.published else None
    return put_together(record_of(order, rebuilt), published, output, store)


def test_the_wheel_is_the_published_one_with_the_compiled_file(tmp_path: Path) -> None:
    order, rebuilt, output = compiled(tmp_path)
    store = Store(tmp_path / "store")
    wheel = together(order, rebuilt, output, store)
    assert (wheel.version, wheel.index) == ("1.0+sy.7.host.kabababab", COMPILED)
    assert wheel.file == "spam-1.0+sy.7.host.kabababab-py3-none-any.whl"
    site = tmp_path / "site"
    with zipfile.ZipFile(store.wheel_path(wheel)) as new, \
            zipfile.ZipFile(order.published[1]) as old:  # type: ignore[index]
        info = "spam-1.0+sy.7.host.kabababab.dist-info"
        assert b"Version: 1.0+sy.7.host.kabababab\n" in new.read(f"{info}/METADATA")
        note = json.loads(new.read(f"{info}/{NOTE}"))
        rows = {line.split(",")[0]: line for line in new.read(f"{info}/RECORD").decode().split()}
        assert new.read("spam/_other.abi3.so") == old.read("spam/_other.abi3.so")
        for name in new.namelist():
            if not name.endswith("/RECORD"):
                assert rows[name] == f"{name},{digest(new.read(name))},{len(new.read(name))}"
        new.extractall(site)
    assert note["patches"] == [{"name": "owner/spam#7", "sha256": "f" * 64,
                                "files": ["csrc/answer.c"]}]
    assert note["published"]["sha256"] == order.published[0].sha256  # type: ignore[index]
    assert note["compiled"]["mode"] == "native"
    assert "seconds" not in note["compiled"]
    show = "import spam._answer, spam._other; print(spam._answer.value(), spam._other.value())"
    said = run([sys.executable, "-c", show], env={"PYTHONPATH": str(site)})
    assert said.stdout.split() == ["42", "7"]


def test_the_same_compile_gives_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        order, rebuilt, output = compiled(tmp_path / name)
        made.append(together(order, rebuilt, output, Store(tmp_path / name / "store")))
    assert made[0] == made[1]


def test_a_file_that_was_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    order, rebuilt, output = compiled(tmp_path)
    (output / "spam/_answer.abi3.so").write_bytes(b"other")
    with pytest.raises(IntegrityError):
        together(order, rebuilt, output, Store(tmp_path / "store"))


def test_a_file_that_the_published_wheel_lacks_is_refused(tmp_path: Path) -> None:
    order, rebuilt, output = compiled(tmp_path)
    (output / "spam/_answer.abi3.so").rename(output / "spam/_new.so")
    moved = rebuilt.files[0].model_copy(update={"path": "spam/_new.so"})
    with pytest.raises(VerdictError, match=r"has no spam/_new\.so"):
        together(order, rebuilt.model_copy(update={"files": (moved,)}), output,
                 Store(tmp_path / "store"))
    target = order.recipe.targets["_answer"].model_copy(update={"new": True})
    recipe = order.recipe.model_copy(update={"targets": {"_answer": target}})
    store, base = Store(tmp_path / "store"), order.base.model_copy(update={"glibc": "2.36"})
    wheel = together(replace(order, recipe=recipe, base=base),
                     rebuilt.model_copy(update={"files": (moved,)}), output, store)
    with zipfile.ZipFile(store.wheel_path(wheel)) as archive:
        assert {"spam/_new.so", "spam/_answer.abi3.so"} <= set(archive.namelist())
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/WHEEL")]
        text = archive.read(name).decode()
        record = archive.read(name.replace("/WHEEL", "/RECORD")).decode()
        assert f"{name},{digest(text.encode())}," in record
    platform = wheel.file.removesuffix(".whl").rpartition("-")[2]
    assert platform == f"manylinux_2_36_{order.cell.machine}", "it is no longer for any processor"
    assert f"Tag: py3-none-{platform}\n" in text
    assert "Root-Is-Purelib: false" in text


def test_a_whole_package_is_the_compiled_wheel_under_its_own_version(tmp_path: Path) -> None:
    order, rebuilt, output = compiled(tmp_path)
    assert order.published is not None
    (output / order.published[1].name).write_bytes(order.published[1].read_bytes())
    file = rebuilt.files[0].model_copy(update={
        "path": order.published[1].name, "target": "", "sha256": order.published[0].sha256})
    whole = replace(order, targets=(), published=None)
    wheel = together(whole, rebuilt.model_copy(update={"files": (file,)}), output,
                         Store(tmp_path / "store"))
    assert wheel.version == compiled_version(whole)
    with pytest.raises(VerdictError, match="must leave one wheel"):
        together(whole, rebuilt, output, Store(tmp_path / "store"))
