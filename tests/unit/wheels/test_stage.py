"""From a decision to a wheel: compiled once, found again, shared, provided to another machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cells_for_tests import CPU, make_cell, make_lock
from compiled_extension import (
    BASE,
    Gcc,
    code,
    compile_one,
    make_published,
    make_recipe,
    make_sources,
)
from patch_wheels import diff, locked
from registry_server import serving

from builder.errors import IntegrityError, VerdictError
from builder.files import sha256_file
from builder.indexes.settings import Sources
from builder.locking.compiled import compiled_entry, with_compiled
from builder.locking.lock import Lock
from builder.matrix.cells import Cell
from builder.patches.status import Candidate
from builder.store.content_store import Store
from builder.wheels.artifact import push
from builder.wheels.decision import decide
from builder.wheels.order import Rebuilt
from builder.wheels.stage import Job, Origin, Outcome, fetch_cell, job_for, provide, run_job

ANSWER = diff("csrc/answer.c", code("_answer", 41), code("_answer", 42))
COMMENT = ANSWER.replace(b"diff --git", b"another comment above\ndiff --git", 1)


class Bench:
    """A cell with a published wheel and its sources on an index, and a registry."""

    def __init__(self, folder: Path, registry: str) -> None:
        self.folder, self.gcc = folder, Gcc()
        self.cell: Cell = make_cell({**CPU, "wheels": {"spam": "auto"}})
        self.sources = make_sources(folder)
        self.published = make_published(folder / "published")
        self.lock: Lock = make_lock(self.cell, locked(self.published))
        self.registry = registry
        page = folder / "simple" / "spam" / "index.html"
        page.parent.mkdir(parents=True)
        page.write_text("".join(
            f'<a href="{path.as_uri()}#sha256={sha256_file(path)}">{path.name}</a>'
            for path in (self.sources, self.published)))

    def store(self, name: str = "store") -> Store:
        return Store(self.folder / name)

    def job(self, data: bytes = ANSWER, store: Store | None = None) -> Job:
        recipe = make_recipe(self.sources)
        series = [Candidate("owner/spam#7", "7", data)]
        decision = decide(self.cell, self.lock.wheels[0], recipe, series)
        return job_for(self.cell, self.lock, decision, recipe, BASE, series, self.gcc,
                       store or self.store())

    def run(self, job: Job, store: Store | None = None, *, again: bool = False) -> Outcome:
        return run_job(self.registry, job, self.gcc, store or self.store(), again=again)

    def compiled_lock(self, outcome: Outcome) -> Lock:
        patches = [patch.sha256 for patch in outcome.job.native.applied]
        return with_compiled(self.lock, compiled_entry(
            self.lock.wheels[0], outcome.job.key, outcome.job.decision.targets, patches),
            outcome.wheel)


@pytest.fixture(autouse=True)
def own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builder.fetch.wheels.user_sources",
                        lambda: Sources((tmp_path / "simple").as_uri()))


def test_equal_inputs_are_compiled_once(tmp_path: Path) -> None:
    with serving() as server:
        bench = Bench(tmp_path, f"{server.host}/team")
        first = bench.run(bench.job())
        assert (first.origin, bench.gcc.compiled) == (Origin.COMPILED, ["_answer"])
        second = bench.run(bench.job(COMMENT))
        assert (second.origin, second.wheel.file) == (Origin.KEPT, first.wheel.file)
        third = bench.run(bench.job(), bench.store("another machine"))
        assert (third.origin, third.wheel) == (Origin.REGISTRY, first.wheel)
        assert bench.gcc.compiled == ["_answer"]
        changed = diff("csrc/answer.c", code("_answer", 41), code("_answer", 43))
        assert bench.run(bench.job(changed)).origin is Origin.COMPILED


def test_without_a_registry_it_is_compiled_and_kept_here(tmp_path: Path,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(tmp_path, "127.0.0.1:9/team")
    assert bench.run(bench.job()).origin is Origin.COMPILED
    assert "stays on this machine" in capsys.readouterr().err
    assert bench.run(bench.job()).origin is Origin.KEPT


def test_compiling_again_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(tmp_path, "127.0.0.1:9/team")
    bench.run(bench.job())
    assert bench.run(bench.job(), again=True).origin is Origin.KEPT
    assert "1 file compared: the same" in capsys.readouterr().err
    assert bench.gcc.fresh == [False, True], "a comparison takes no object from a cache"
    monkeypatch.setattr("compiled_extension.compile_one", lambda files, name, target: compile_one(
        {**files, "csrc/shared.h": "#define ADDED 5\n"}, name, target))
    with pytest.raises(VerdictError, match=r"spam/_answer\.abi3\.so: sha256"):
        bench.run(bench.job(), again=True)


def test_a_killed_compile_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, "127.0.0.1:9/team")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("builder.wheels.kept.write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        bench.run(bench.job())
    monkeypatch.undo()
    assert not list((tmp_path / "store" / "compiled").glob("*"))
    assert not list((tmp_path / "store" / "wheels").glob("*/*+sy*"))


def test_a_locked_wheel_is_put_together_from_the_registry(tmp_path: Path) -> None:
    with serving() as server:
        bench = Bench(tmp_path, f"{server.host}/team")
        outcome = bench.run(bench.job())
        lock, other = bench.compiled_lock(outcome), bench.store("another machine")
        fetched = fetch_cell(bench.registry, bench.cell, lock, other)
        assert fetched.paths[outcome.wheel] == other.wheel_path(outcome.wheel)
        wrong = lock.model_copy(update={"wheels": (
            outcome.wheel.model_copy(update={"size": outcome.wheel.size + 1}),)})
        with pytest.raises(IntegrityError):
            provide(bench.registry, bench.cell, wrong, bench.store("a third"))


def test_the_compile_is_against_the_locked_torch(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "127.0.0.1:9/team")
    job = bench.job()
    assert (job.version, job.torch) == ("1.0", None)
    torch = make_lock(bench.cell, locked(bench.published).model_copy(update={"name": "torch"}))
    assert replace(job, lock=torch).torch == torch.wheels[0]


def forged(bench: Bench, outcome: Outcome, **changed: str) -> Rebuilt:
    """Return the record of a compile with another name for its file; the bytes are there."""
    whole = outcome.rebuilt
    made = whole.model_copy(update={"files": (whole.files[0].model_copy(update=changed),)})
    path = bench.folder / "forged" / made.files[0].path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((kept_folder(bench, outcome) / "files" / whole.files[0].path).read_bytes())
    return made


def kept_folder(bench: Bench, outcome: Outcome) -> Path:
    return bench.store().root / "compiled" / outcome.job.key


@pytest.mark.parametrize("changed", [
    {"path": "spam/__init__.py"}, {"target": "_other"}, {"target": ""}])
def test_files_that_no_target_makes_are_not_taken_from_a_registry(
        tmp_path: Path, changed: dict[str, str]) -> None:
    """Whoever may write there could put any file of the wheel in the place of the published one."""
    with serving() as server:
        bench = Bench(tmp_path, f"{server.host}/team")
        wrong = forged(bench, bench.run(bench.job()), **changed)
        push(bench.registry, wrong, tmp_path / "forged", tmp_path / "journals")
        other, asked = bench.store("another machine"), server.count("GET")
        with pytest.raises(VerdictError, match="registry has under this key is not what spam's"):
            bench.run(bench.job(), other)
        assert server.count("GET") == asked + 2, "the manifest and the record, none of the files"
        assert not list((other.root / "wheels").glob("*/*+sy*"))
        assert not (other.root / "compiled").exists(), "nothing of it is in the next run's way"


def test_a_kept_record_that_does_not_fit_is_removed_and_the_files_are_compiled_anew(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(tmp_path, "127.0.0.1:9/team")
    outcome = bench.run(bench.job())
    folder = kept_folder(bench, outcome)
    (folder / "rebuilt.json").write_text(
        forged(bench, outcome, target="_other").model_dump_json())
    capsys.readouterr()
    again = bench.run(bench.job())
    assert (again.origin, again.wheel) == (Origin.COMPILED, outcome.wheel)
    assert "not what the key makes" in capsys.readouterr().err
    assert bench.run(bench.job()).origin is Origin.KEPT


def test_a_record_of_other_files_than_those_here_makes_no_wheel(tmp_path: Path) -> None:
    with serving() as server:
        bench = Bench(tmp_path, f"{server.host}/team")
        outcome = bench.run(bench.job())
        lock, other = bench.compiled_lock(outcome), bench.store("another machine")
        push(bench.registry, forged(bench, outcome, path="spam/__init__.py"), tmp_path / "forged",
             tmp_path / "journals")
        provide(bench.registry, bench.cell, lock, other)
        assert other.find_wheel(outcome.wheel) is None
