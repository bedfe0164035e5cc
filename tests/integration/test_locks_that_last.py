"""A base outlives its packages on the mirror: real apt, real dpkg, a real engine and registry.

The mirror and the snapshot service are an archive of real Debian packages on this machine, so that
one can be dropped from it. The base is small: Debian's essential packages, and an empty one in the
place of Python.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder import cli, limits
from builder.bases import provision
from builder.bases.provision import Origin, ensure
from builder.bases.retained import packages_kept, packages_tag, repository_of
from builder.bases.state import BaseState, image_tag, load_slim_recipe, lock_file, read_bases
from builder.cache_folder import claim
from builder.debian import resolve
from builder.debian.archives import VARIABLE, mirror
from builder.debian.fetch import GoneError, Source, fetch_debs, place
from builder.debian.resolve import resolve_debs
from builder.engine.client import Engine
from builder.locking.base_lock import LockedBase, load_bases
from builder.nightly.bases import BaseNights
from builder.nightly.cycle import Night, Ran
from builder.nightly.issues import FolderIssues
from builder.workspace import Workspace, cache_folder, open_workspace
from tests.integration.debian_archive import Archive
from tests.unit.matrices import SLIM_TEXT

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1:5000"
KEY = ("slim", "linux/amd64")
PACKAGES = ("usr-is-merged", "ca-certificates")
PYTHON = ("python3.11", "3.11.2-6")
DROPPED = "mawk"
NEWER = "1.3.4.99-1"
MATRIX = SLIM_TEXT.replace(', "linux/arm64"', "") + """[images.probe]
platform = "linux/amd64"
base = "slim"
vllm = "1.0"
"""
RECIPE = f'suite = "bookworm"\npackages = {[*PACKAGES, PYTHON[0]]}\n[env]\nPATH = "/usr/bin:/bin"\n'


@dataclass
class Checkout:
    """A checkout with a small base, a cache of its own, and the archive that it uses."""

    workspace: Workspace
    archive: Archive
    engine: Engine
    names: list[str]

    def run(self, *words: str) -> int:
        return cli.run(["--matrix", str(self.workspace.root / "matrix.toml"), *words])

    def night(self, words: Sequence[str]) -> Ran:
        return Ran(self.run(*words))

    @property
    def locked(self) -> LockedBase:
        return load_bases(lock_file(self.workspace))[KEY]

    def dropped_file(self) -> Path:
        deb = self.locked.package(DROPPED)
        assert deb is not None
        return place(self.workspace.cache / "debs", deb)

    def forget_image(self) -> None:
        """Take the base's image from the engine."""
        self.engine.remove(image_tag(self.workspace.registry, self.locked))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    folder = tmp_path_factory.mktemp("last")
    found = resolve_debs("bookworm", "amd64", PACKAGES, where=__file__)
    files = fetch_debs(found, [mirror("bookworm")], cache_folder()).paths
    (folder / "images/base").mkdir(parents=True)
    (folder / "images/base/slim.toml").write_text(RECIPE)
    (folder / "matrix.toml").write_text(MATRIX)
    names = [f"{HOST}/last-{os.getpid()}-{number}" for number in (1, 2)]
    archive = Archive(folder / "archive")
    archive.add_empty(*PYTHON)
    archive.publish(list(zip(found, files, strict=True)))
    engine = Engine.connect()
    with archive.serving(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKYARD_CACHE", str(claim(folder / "cache")))
        patch.setenv("SPARKYARD_REGISTRY", names[0])
        patch.setenv("SPARKYARD_DEBIAN_MIRROR", f"{archive.address}/debian")
        patch.setenv(VARIABLE, f"{archive.address}/archive/{{archive}}/{{time}}")
        # The archive is not signed: the line after the keyring's says that apt need not ask.
        patch.setattr(resolve, "KEYRING", f"{resolve.KEYRING}\nTrusted: yes")
        yield Checkout(open_workspace(folder / "matrix.toml"), archive, engine, names)
    shutil.rmtree(folder / "cache")
    for name in names:
        listed = subprocess.run(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}",
                                 f"{name}/base-slim"], check=True, capture_output=True, text=True)
        for image in listed.stdout.split():
            engine.remove(image.replace(":<none>", ""))


def sources(checkout: Checkout) -> list[Source]:
    return provision.debian_sources(checkout.workspace, checkout.locked,
                                    load_slim_recipe(checkout.workspace.root))


def test_a_lock_is_written_when_the_registry_has_the_base_and_its_packages(
        checkout: Checkout) -> None:
    assert checkout.run("base", "--upgrade") == 0
    locked = checkout.locked
    assert locked.snapshot.endswith("T235959Z")
    repository = repository_of(checkout.workspace.registry, locked)
    assert packages_kept(repository, locked)
    assert packages_tag(locked) in repository.tags()
    assert image_tag("", locked).rpartition(":")[2] in repository.tags()
    before = lock_file(checkout.workspace).read_bytes()
    assert checkout.run("base", "--upgrade") == 0
    assert lock_file(checkout.workspace).read_bytes() == before, "today's packages are the same"


def test_an_altered_base_of_the_registry_is_refused_and_the_locked_digest_is_used(
        checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    tag = image_tag(checkout.workspace.registry, checkout.locked)
    good = checkout.locked.digest
    subprocess.run(["docker", "build", "-q", "-t", tag, "-"], check=True, capture_output=True,
                   input=f"FROM {tag}\nENV LD_PRELOAD=/evil.so\n".encode())
    checkout.engine.push(tag)
    checkout.forget_image()
    ready = ensure(checkout.workspace, checkout.engine, KEY)
    assert (ready.origin, ready.reference.rpartition("@")[2]) == (Origin.PULLED, good)
    assert "its configuration is not the locked one: it is not used" in capsys.readouterr().err
    facts = checkout.engine.inspect(tag)
    assert facts is not None
    assert "LD_PRELOAD" not in facts.env


@pytest.mark.parametrize("snapshot", ["missing", "garbage", "slow"])
def test_where_the_snapshot_fails_the_registry_gives_what_the_mirror_dropped(
        checkout: Checkout, snapshot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(NEWER in path for path in checkout.archive.today):
        checkout.archive.renew(DROPPED, NEWER)
    monkeypatch.setattr(limits, "SNAPSHOT_DEB_S", 3.0)
    monkeypatch.setattr(checkout.archive, "snapshot", snapshot)
    before = checkout.dropped_file().read_bytes()
    checkout.dropped_file().unlink()
    fetched = fetch_debs(checkout.locked.packages, sources(checkout), checkout.workspace.cache)
    assert fetched.counts == {f"the registry ({checkout.workspace.registry})": 1}
    assert f"does not have {DROPPED}" in str(fetched.answers[0])
    assert checkout.dropped_file().read_bytes() == before


def test_without_a_snapshot_and_without_the_registrys_packages_it_is_gone(
        checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_REGISTRY", checkout.names[1])
    monkeypatch.setattr(checkout.archive, "snapshot", "missing")
    checkout.dropped_file().unlink()
    with pytest.raises(GoneError) as caught:
        fetch_debs(checkout.locked.packages, sources(checkout), checkout.workspace.cache)
    lines = caught.value.what.splitlines()
    assert [line.split(" does not have ")[0].split(":")[0] for line in lines[1:]] == [
        "  your Debian mirror", f"  the snapshot service at {checkout.locked.snapshot}",
        f"  the registry ({HOST.partition(':')[0]}"]


def test_a_base_is_made_again_from_the_snapshot_through_any_kill(
        checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another registry, an empty engine: killed as it fetches, as it installs, then to the end."""
    monkeypatch.setenv("SPARKYARD_REGISTRY", checkout.names[1])
    words = [sys.executable, "-m", "builder", "--matrix",
             str(checkout.workspace.root / "matrix.toml"), "base", "slim"]
    for moment in ("fetching", "installing"):
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                              start_new_session=True) as child:
            assert child.stderr is not None
            assert any(moment in line for line in child.stderr), moment
            os.killpg(child.pid, signal.SIGKILL)
        assert checkout.engine.inspect(image_tag(checkout.names[1], checkout.locked)) is None
        if moment == "fetching":
            checkout.dropped_file().unlink(missing_ok=True)
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    facts = checkout.engine.inspect(image_tag(checkout.names[1], checkout.locked))
    assert facts is not None
    assert facts.diff_ids == checkout.locked.diff_ids
    assert read_bases(checkout.workspace).standings[KEY].state is BaseState.LOCKED
    assert packages_kept(repository_of(checkout.names[1], checkout.locked), checkout.locked)


def test_the_night_renews_the_lock_and_puts_it_back_where_no_cell_passes(
        checkout: Checkout) -> None:
    workspace, good = checkout.workspace, checkout.locked
    cell = workspace.cells[0]
    issues = FolderIssues(workspace.cache / "nightly")
    nights = BaseNights(workspace.locks, issues.folder, checkout.night, issues)
    renewal = nights.renew(KEY)
    deb = good.package(DROPPED)
    assert deb is not None
    assert renewal.night.changes[0] == f"{DROPPED} {deb.version} -> {NEWER}"
    assert checkout.locked.image_id != good.image_id
    ended = nights.settle(renewal, [(cell, Night(cell.id, "failed: smoke", failed=True))])
    assert ended.failed
    assert checkout.locked == good
