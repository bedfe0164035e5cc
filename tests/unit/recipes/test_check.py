"""A recipe is judged by the vLLM of its own lock; what cannot be read is not called good."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import fake_vllm
import pytest
from matrices import small

from builder.locking.lock import Lock, LockedWheel
from builder.matrix.cells import Cell, expand
from builder.matrix.load import parse_matrix
from builder.recipes.check import Finding, Vllms, check
from builder.recipes.models import Recipe
from builder.recipes.rules import Severity
from builder.store.content_store import Store

CELL = next(cell for cell in expand(parse_matrix(small())) if cell.id == "tf5")
SERVE = ("--gpu-memory-utilization", "0.7", "--max-model-len", "4096")


def recipe(*serve: str, **changed: Any) -> Recipe:
    return Recipe.model_validate({
        "name": "r", "schema": 1, "description": "d", "family": "other", "image": "tf5",
        "model": {"repository": "a/b", "unpinned_because": "a test", "parameters_billion": 1,
                  "active_billion": 1}, "environment": {"MAX_JOBS": "4"},
        "serve": (*SERVE, *serve), **changed})


def locked(store: Store, path: Path, version: str) -> Lock:
    data = path.read_bytes()
    wheel = LockedWheel(name="vllm", version=version, file=path.name, size=len(data),
                        sha256=hashlib.sha256(data).hexdigest(), index="default")
    store.add_wheel(wheel, path)
    return Lock(cell="tf5", intent="i", python="3.12", platform="x", wheels=(wheel,))


@pytest.fixture
def lock(tmp_path: Path) -> Lock:
    return locked(Store(tmp_path / "cache"), fake_vllm.wheel(tmp_path), "0.20.2")


@pytest.fixture
def vllms(tmp_path: Path, lock: Lock) -> Vllms:
    store = Store(tmp_path / "cache")
    newer = fake_vllm.ARG_UTILS.replace('"--gdn-backend"', '"--spec-method"')
    newest = locked(store, fake_vllm.wheel(
        tmp_path, "vllm-0.32.0-py3-none-any.whl", engine__arg_utils=newer), "0.32.0")
    return Vllms(store, [lock, newest])


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


def test_a_good_recipe_has_no_finding(vllms: Vllms, lock: Lock) -> None:
    good = recipe("--moe-backend", "marlin", environment={"MAX_JOBS": "4", "NCCL_DEBUG": "INFO"},
                  log={"must_show": [{"pattern": "Using MARLIN MoE backend", "why": "w"}]})
    assert check(good, CELL, lock, vllms) == []


def test_a_flag_of_a_newer_vllm_is_named_with_the_version_that_has_it(
        vllms: Vllms, lock: Lock) -> None:
    found = only(check(recipe("--spec-method", "mtp"), CELL, lock, vllms))
    assert found.severity is Severity.ERROR
    assert found.what == "vLLM 0.20.2: there is no flag --spec-method"
    assert found.next_step == "vLLM 0.32.0 has it"


def test_a_misspelt_flag_comes_with_what_was_meant(vllms: Vllms, lock: Lock) -> None:
    found = only(check(recipe("--moe-backed", "marlin"), CELL, lock, vllms))
    assert found.next_step == 'perhaps you meant "--moe-backend"'


def test_an_unread_variable_and_an_impossible_pattern_are_warnings(
        vllms: Vllms, lock: Lock) -> None:
    made = recipe(environment={"MAX_JOBS": "4", "VLLM_SPCE": "1"}, log={"must_show": [
        {"pattern": "Using CUTLASS everywhere", "why": "w"},
        {"pattern": "Only a processor says this", "why": "w", "on": "cpu"}]})
    found = check(made, CELL, lock, vllms)
    assert [(one.check, one.severity) for one in found] == [
        ("environment", Severity.WARNING), ("log", Severity.WARNING)]
    assert "VLLM_SPCE" in found[0].what
    assert "'Using CUTLASS everywhere'" in found[1].what


def test_rules_and_blocked_versions_are_errors_and_come_first(vllms: Vllms, lock: Lock) -> None:
    made = recipe("--quantization", "mine", "--gpu-memory-utilization=0.95", blocked=[
        {"versions": "<=0.20.2", "reason": "it dies", "link": "https://example.org/1"}])
    found = check(made, CELL, lock, vllms)
    assert [one.check for one in found] == ["version", "memory-utilization", "flag"]
    assert "it dies" in found[0].what
    assert found[2].severity is Severity.WARNING


@pytest.mark.parametrize(("has_lock", "next_step"), [(True, "fetch"), (False, "lock")])
def test_what_cannot_be_read_is_an_error_with_the_command_that_helps(
        tmp_path: Path, lock: Lock, has_lock: bool, next_step: str) -> None:
    empty = Vllms(Store(tmp_path / "empty"))
    found = only(check(recipe(), CELL, lock if has_lock else None, empty))
    assert found.severity is Severity.ERROR
    assert found.next_step == f"`./nox -s {next_step} -- tf5`"


def test_a_damaged_wheel_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "vllm-0.20.2-py3-none-any.whl"
    path.write_bytes(b"not a wheel")
    store = Store(tmp_path / "cache")
    lock = locked(store, path, "0.20.2")
    assert "cannot be read" in only(check(recipe(), CELL, lock, Vllms(store))).what


def test_the_cell_is_a_gpu_cell() -> None:
    assert isinstance(CELL, Cell)
    assert CELL.is_cuda
