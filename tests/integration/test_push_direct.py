"""`push --direct` to a real registry, pulled and run by a real engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from builder.build import Built, build
from builder.cli import run
from builder.engine.client import Engine, RunSpec
from builder.promotion.evidence import gather
from builder.registry.client import Client, OtherBytesError
from builder.registry.reference import parse
from builder.registry.repository import INDEX_TYPE, Repository
from builder.workspace import Workspace, cache_folder
from tests.integration.served import free_port
from tests.integration.test_build import ended, make_workspace, sparkyard

pytestmark = pytest.mark.engine

FOUND_IN = cache_folder(make=False) / "services/registry-program/usr/bin/docker-registry"
LIST = ("find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /etc/hosts "
        "-o -path /etc/hostname -o -path /etc/resolv.conf -o -path /.dockerenv -o -path /etc/mtab "
        "\\) -prune -o -printf '%p %y %m %U:%G %l ' \\( -type f -printf '%s %T@ ' \\) "
        "-printf '\\n' | sort")


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run Debian's registry with a folder of its own."""
    program = shutil.which("docker-registry") or str(FOUND_IN)
    host = f"127.0.0.1:{free_port()}"
    config = folder / "registry.yml"
    config.write_text(f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {folder}/data\n"
                      f"http:\n  addr: {host}\n  secret: s\n")
    with (folder / "log").open("wb") as log, subprocess.Popen(
            [program, "serve", str(config)], stdout=log, stderr=log) as child:
        try:
            for _ in range(6000):
                try:
                    requests.get(f"http://{host}/v2/", timeout=60)
                    break
                except requests.ConnectionError:
                    time.sleep(0.1)
            yield host
        finally:
            child.terminate()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Built]:
    workspace = make_workspace(tmp_path_factory.mktemp("direct") / "w", "1.7",
                               weights=os.urandom(900))
    return workspace, build(workspace, workspace.cells[0], Engine.connect())


@contextmanager
def named_for(host: str, built: Built, workspace: Workspace) -> Iterator[str]:
    """Give the image its names at the registry ``host``."""
    engine, own = Engine.connect(), f"{host}/sparkyard"
    names = [name.replace(workspace.registry, own) for name in (built.plan.name, built.plan.tag)]
    for name in names:
        engine.tag(built.image.id, name)
    try:
        yield names[1]
    finally:
        for name in names:
            engine.remove(name)


def push(workspace: Workspace, host: str, *options: str) -> dict[str, object]:
    child = sparkyard(workspace, "push", "probe", "--direct", "--json", *options,
                      SPARKYARD_REGISTRY=f"{host}/sparkyard")
    with child:
        said, errors = child.communicate(timeout=600)
    assert child.returncode == 0, errors
    result: dict[str, object] = json.loads(said)[0]
    return result


def listed(engine: Engine, image: str) -> list[str]:
    done = engine.run_once(RunSpec(image, ("bash", "-c", LIST), network="none"))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("method", ["zstd", "gzip"])
def test_a_real_engine_pulls_and_runs_what_was_pushed(
        built: tuple[Workspace, Built], tmp_path: Path, method: str) -> None:
    workspace, done = built
    engine = Engine.connect()
    with registry(tmp_path) as host:
        with named_for(host, done, workspace) as tag:
            first = push(workspace, host, "--compression", method)
            again = push(workspace, host, "--compression", method)
        assert first["sent"]
        assert (again["sent"], again["digest"]) == (0, first["digest"])
        pulled = engine.pull(tag)
        try:
            assert pulled.id == first["config"]
            assert set(listed(engine, pulled.id)) ^ set(listed(engine, done.image.id)) == set()
            assert pulled.env == done.image.env
        finally:
            engine.remove(tag)


def test_another_store_gives_the_same_manifest(
        built: tuple[Workspace, Built], tmp_path: Path) -> None:
    workspace, done = built
    other = replace(workspace, cache=tmp_path / "other")
    shutil.copytree(workspace.cache / "layers", other.cache / "layers")
    (other.cache / ".sparkyard-cache").touch()
    with registry(tmp_path) as host, named_for(host, done, workspace):
        first = push(workspace, host)
        second = push(other, host)
    assert second["digest"] == first["digest"]
    assert second["sent"] == 0


def test_a_killed_push_leaves_no_tag_and_the_next_one_finishes(
        built: tuple[Workspace, Built], tmp_path: Path) -> None:
    workspace, done = built
    for attempt in range(10):  # a push may be over before it is killed
        (folder := tmp_path / str(attempt)).mkdir()
        with registry(folder) as host, named_for(host, done, workspace) as tag:
            url = (f"http://{host}/v2/" + tag.partition("/")[2].replace(":", "/manifests/"))
            kill_at_its_first_upload(folder, sparkyard(
                workspace, "push", "probe", "--direct", SPARKYARD_REGISTRY=f"{host}/sparkyard"))
            if requests.get(url, timeout=60).status_code != 404:
                continue
            assert push(workspace, host)["digest"]
            headers = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
            assert requests.get(url, headers=headers, timeout=60).status_code == 200
            return
    raise AssertionError("ten pushes were over before they were killed")


def kill_at_its_first_upload(folder: Path, child: subprocess.Popen[str]) -> None:
    """Kill a push once the registry in that folder takes something from it."""
    uploads = folder / "data/docker/registry/v2/repositories"
    while not list(uploads.glob("*/*/_uploads/*")) and child.poll() is None:
        time.sleep(0.005)
    child.kill()
    child.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_registry_whose_disk_is_full_gets_no_tag_and_the_next_push_goes_on(
        built: tuple[Workspace, Built], tmp_path: Path) -> None:
    workspace, done = built
    data = tmp_path / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", data], check=True)
    try:
        with registry(tmp_path) as host, named_for(host, done, workspace) as tag:
            url = f"http://{host}/v2/" + tag.partition("/")[2].replace(":", "/manifests/")
            errors = ended(sparkyard(workspace, "push", "probe", "--direct",
                                     SPARKYARD_REGISTRY=f"{host}/sparkyard"), 4)
            assert "the registry cannot be used: it answered 5" in errors
            assert "is its disk full" in errors
            assert requests.get(url, timeout=60).status_code == 404
            subprocess.run(["mount", "-o", "remount,size=2g", data], check=True)
            digest = push(workspace, host)["digest"]
            headers = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
            said = requests.get(url, headers=headers, timeout=60)
            assert said.headers["Docker-Content-Digest"] == digest
    finally:
        subprocess.run(["umount", "-l", data], check=True)


def test_whatever_a_full_disk_left_empty_in_a_registry_the_next_push_mends(
        built: tuple[Workspace, Built], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    """Debian's registry then answers 500 for each such blob, manifest and tag; seen under load."""
    monkeypatch.setattr(Client, "pause", lambda *_: None)
    workspace, done = built
    words = ["--matrix", str(workspace.root / "matrix.toml"), "push", "probe", "--direct"]
    monkeypatch.setenv("SPARKYARD_CACHE", str(workspace.cache))
    with registry(tmp_path) as host, named_for(host, done, workspace):
        monkeypatch.setenv("SPARKYARD_REGISTRY", f"{host}/sparkyard")
        assert run(words) == 0
        there = Repository(Client(parse(f"{host}/sparkyard/probe:probe")))
        (tag,) = (tag for tag in there.tags() if tag.startswith("probe-"))
        image = there.manifest(tag)
        assert image is not None
        there.point("probe-next", image)  # what the next push is measured against
        repository = tmp_path / "data/docker/registry/v2/repositories/sparkyard/probe"
        links = {link: link.read_text() for link in repository.rglob("link")}
        assert len(links) > 20
        assert "the list begins anew" not in capsys.readouterr().err
        for folder in ("_layers", "_manifests/revisions", "_manifests/tags", ""):
            for link in (repository / folder).rglob("link"):
                link.write_text("")
            assert run(words) == 0, folder
            said = capsys.readouterr().err
            assert ("the list begins anew" in said) == (folder != "_layers")
            assert "has other layers" not in said
        lost = [link for link, text in links.items() if link.read_text() != text
                and ("_layers" in link.parts or "current" in link.parts)
                and "probe-next" not in link.parts]
        # The new list names the time of this push as the first.
        assert [link.parent.parent.name.partition("-")[0] for link in lost] == ["sha256"]
        (listed,) = lost
        number = listed.read_text().removeprefix("sha256:")
        assert len(gather(there, image.digest).lost) == 1, "promote knows what may be missing"
        data = tmp_path / "data/docker/registry/v2/blobs/sha256" / number[:2] / number / "data"
        data.write_text(json.dumps({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": []}))
        with pytest.raises(OtherBytesError):
            gather(there, image.digest)
        assert run(words) == 0
        assert "the list begins anew" in capsys.readouterr().err
        assert len(gather(there, image.digest).lost) == 1


def test_a_stopped_registry_is_one_clear_error(
        built: tuple[Workspace, Built], tmp_path: Path) -> None:
    workspace, done = built
    with named_for("127.0.0.1:9", done, workspace):
        errors = ended(sparkyard(workspace, "push", "probe", "--direct",
                                 SPARKYARD_REGISTRY="127.0.0.1:9/sparkyard"), 4)
    assert "Traceback" not in errors
