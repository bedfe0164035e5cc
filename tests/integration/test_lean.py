"""Trimmed libraries of the locked wheels, held against NVIDIA's ``cuobjdump`` and the gate."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from builder.binaries.facts import WheelFacts
from builder.binaries.wheel_facts import read_wheels
from builder.fetch.wheels import FetchedWheels
from builder.gate.coverage import Fit, cover, fit
from builder.lean.library import trim_library
from builder.lean.stage import LeanClosure, trim_closure
from builder.locking.lock import read_lock
from builder.store.content_store import Store
from tests.integration.test_gate_readers import LOCKS, Cuobjdump, fetched

GPU = "sm_121"
NAMES = ("vllm", "nvidia-curand")


@pytest.fixture(scope="module")
def wheels() -> dict[str, tuple[Path, str]]:
    return fetched(read_lock(LOCKS / "tf5.toml"), *NAMES)


@pytest.fixture(scope="module")
def lean(wheels: dict[str, tuple[Path, str]], tmp_path_factory: pytest.TempPathFactory
         ) -> LeanClosure:
    """Trim two wheels of the closure, in a store of their own."""
    lock = read_lock(LOCKS / "tf5.toml")
    members = tuple(wheel for wheel in lock.wheels if wheel.name in NAMES)
    paths = {wheel: wheels[wheel.name][0] for wheel in members}
    store = Store(tmp_path_factory.mktemp("store"))
    closure = FetchedWheels(lock.model_copy(update={"wheels": members}), paths)
    return trim_closure(closure, GPU, store)


def facts_of(paths: list[tuple[Path, str]], folder: Path) -> dict[str, WheelFacts]:
    return {facts.name: facts for facts in read_wheels(paths, folder)}


def test_cuobjdump_lists_exactly_the_kept_entries(
        wheels: dict[str, tuple[Path, str]], tmp_path: Path) -> None:
    cuobjdump = Cuobjdump(tmp_path)
    with zipfile.ZipFile(wheels["vllm"][0]) as archive:
        source = Path(archive.extract("vllm/_C.abi3.so", tmp_path))
    target = tmp_path / "trimmed.so"
    result = trim_library(source, target, GPU)
    assert result.reason == ""
    assert result.after < result.before / 2
    before, after = cuobjdump.listed(source), cuobjdump.listed(target)
    assert sum(after.values()) == result.kept
    assert sum(before.values()) == result.kept + result.dropped
    assert not after - before, "nothing is listed that was not there"
    assert after["sm_120"] == before["sm_120"] > 0


def test_the_gate_says_the_same_but_for_dead_weight(
        wheels: dict[str, tuple[Path, str]], lean: LeanClosure, tmp_path: Path) -> None:
    published = facts_of([wheels[name] for name in NAMES], tmp_path / "a")
    trimmed = facts_of([(path, wheel.sha256) for wheel, path in lean.wheels.paths.items()],
                       tmp_path / "b")
    for name in NAMES:
        assert trimmed[name].damage == ()
        before = {each.file: each for each in cover([published[name]], GPU)}
        after = {each.file: each for each in cover([trimmed[name]], GPU)}
        for file, covered in after.items():
            assert covered.fit is before[file].fit
            assert covered.dead <= before[file].dead
        assert all(each.fit is Fit.NONE for file, each in before.items() if file not in after)
        assert sum(each.dead for each in after.values()) < sum(
            each.dead for each in before.values()) / 3


def test_the_libraries_are_the_same_but_for_their_gpu_code(
        wheels: dict[str, tuple[Path, str]], lean: LeanClosure, tmp_path: Path) -> None:
    published = facts_of([wheels[name] for name in NAMES], tmp_path / "a")
    trimmed = facts_of([(path, wheel.sha256) for wheel, path in lean.wheels.paths.items()],
                       tmp_path / "b")
    compared = 0
    for name in NAMES:
        before = {elf.path: elf for elf in published[name].elves}
        for elf in trimmed[name].elves:
            plain = {"size": 0, "cuda": (), "cuda_to_link": (), "regions": ()}
            assert replace(elf, **plain) == replace(before[elf.path], **plain)
            runs = {code.name for code in before[elf.path].cuda if fit(code, GPU) in (
                Fit.NATIVE, Fit.FAMILY)}
            assert runs <= {code.name for code in elf.cuda}
            compared += 1
    assert compared > 5
