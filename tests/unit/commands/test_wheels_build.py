"""``wheels build`` with a real compiler for this machine: compiled, locked, found, refused."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from compiled_cells import compiled_workspace, declare
from compiled_extension import Gcc, code
from patch_wheels import diff

from builder.cli import run
from builder.commands.wheels_build import build_cells
from builder.errors import VerdictError
from builder.gate.judge import GateReport
from builder.locking.check import cell_problems
from builder.locking.findings import Finding, FindingCode
from builder.locking.lock import load_for
from builder.patches.load import load_series
from builder.patches.stage import apply_series
from builder.patches.status import Standing
from builder.store.content_store import Store
from builder.wheels.kept import Kept
from builder.wheels.stage import fetch_cell
from builder.workspace import Workspace, open_workspace


def build(workspace: Workspace, compiler: Gcc) -> Workspace:
    """Compile with the matrix as it is now; return the workspace."""
    now = open_workspace(workspace.root / "matrix.toml")
    assert build_cells(now, now.cells, compiler) == 0
    return now


def test_a_patched_extension_is_compiled_locked_and_found_again(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    workspace, gcc = compiled_workspace(tmp_path, monkeypatch), Gcc()
    build(workspace, gcc)
    lock = load_for(workspace.cells[0], workspace.locks)
    wheel = lock.wheel("spam")
    assert wheel
    assert wheel.version.startswith("1.0+sy.answer.host.k")
    assert lock.compiled[0].targets == ("_answer",)
    assert wheel.file in capsys.readouterr().out
    before = (workspace.locks / "probe.toml").read_bytes()
    build(workspace, gcc)
    assert gcc.compiled == ["_answer"], "equal inputs: nothing is compiled"
    assert (workspace.locks / "probe.toml").read_bytes() == before
    assert list(cell_problems(workspace.cells[0], workspace.locks, {})) == []
    series = load_series(workspace, workspace.cells[0], lock)
    store = Store(workspace.cache)
    wheels = fetch_cell(workspace.registry, workspace.cells[0], lock, store)
    patched = apply_series(wheels, series, store)
    assert [verdict.standing for verdict in patched.verdicts] == [Standing.COMPILED]
    assert patched.versions == {}


def test_the_published_wheel_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, gcc = compiled_workspace(tmp_path, monkeypatch), Gcc()
    build(workspace, gcc)
    declare(workspace.root / "matrix.toml", '"published"')
    now = build(workspace, gcc)
    lock = load_for(now.cells[0], now.locks)
    assert lock.compiled == ()
    assert lock.wheel("spam").version == "1.0"  # type: ignore[union-attr]


def test_a_changed_patch_compiles_only_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                   ) -> None:
    workspace, gcc = compiled_workspace(tmp_path, monkeypatch), Gcc()
    build(workspace, gcc)
    first = load_for(workspace.cells[0], workspace.locks)
    (workspace.root / "images/spam.diff").write_bytes(
        diff("csrc/answer.c", code("_answer", 41), code("_answer", 43)))
    assert run(["--matrix", str(workspace.root / "matrix.toml"), "patch", "refresh", "probe"]) == 0
    now = build(workspace, gcc)
    second = load_for(now.cells[0], now.locks)
    assert gcc.compiled == ["_answer", "_answer"]
    assert [old.name for old, new in zip(first.wheels, second.wheels, strict=True)
            if old != new] == ["spam"]


def test_what_the_gate_refuses_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                             ) -> None:
    workspace = compiled_workspace(tmp_path, monkeypatch)
    before = (workspace.locks / "probe.toml").read_bytes()
    judged = build_cells.__globals__["gate_cell"]

    def refusing(*arguments: object) -> GateReport:
        report: GateReport = judged(*arguments)
        lock = arguments[2]
        wheel = lock.wheel("spam")  # type: ignore[attr-defined]
        return replace(report, findings=(Finding(
            FindingCode.NO_GPU_CODE, "no code", "compile it", wheel=wheel.file),))

    monkeypatch.setattr("builder.commands.wheels_build.gate_cell", refusing)
    with pytest.raises(VerdictError, match="it is not locked"):
        build(workspace, Gcc())
    assert (workspace.locks / "probe.toml").read_bytes() == before


def killed(workspace: Workspace, moment: int) -> bool:
    """Build in a process of its own, killed before its nth change to what lasts; say whether."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL)
        return status != 0
    left = [moment]
    places = tuple(str(folder) for folder in (
        workspace.locks, *(workspace.cache / name for name in ("tmp", "wheels", "compiled"))))

    def watch(event: str, words: tuple[object, ...]) -> None:
        if (event == "os.rename" or (event == "open" and words[1] and "w" in str(words[1]))) and \
                str(words[0]).startswith(places) and "output-_answer" not in str(words[0]):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    try:
        build(workspace, Gcc())
        os._exit(0)
    finally:
        os._exit(1)


def no_half_thing(workspace: Workspace) -> None:
    """Whatever has its final name is whole."""
    for path in (workspace.cache / "wheels").glob("*/*.whl"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name
    kept = Kept(Store(workspace.cache))
    for path in (workspace.cache / "compiled").glob("[0-9a-f]*"):
        assert kept.record(path.stem) if path.suffix else kept.find(path.name)
    load_for(workspace.cells[0], workspace.locks)


def test_killed_at_any_moment_nothing_is_half_there(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builder.wheels.artifact.pull", lambda *_: None)
    monkeypatch.setattr("builder.wheels.artifact.push", lambda *_: "")
    monkeypatch.setattr("builder.wheels.artifact.push_record", lambda *_: "")
    workspace = compiled_workspace(tmp_path, monkeypatch)
    before = {path: path.read_bytes() for path in workspace.locks.iterdir() if path.is_file()}
    build(workspace, Gcc())
    after = {path: path.read_bytes() for path in before}
    assert before != after
    moment = 0
    while True:
        for path, data in before.items():
            path.write_bytes(data)
        shutil.rmtree(workspace.cache / "compiled")
        for path in (workspace.cache / "wheels").glob("*/*+sy*"):
            path.unlink()
        moment += 1
        if not killed(workspace, moment):
            break
        no_half_thing(workspace)
        build(workspace, Gcc())
        assert {path: path.read_bytes() for path in before} == after, f"moment {moment}"
    assert moment > 10, "so many changes were each the last one"
    assert not list((workspace.cache / "tmp").iterdir()), "what was killed is swept"
