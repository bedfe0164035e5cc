"""The real bases: the toolchain in them works, and the same packages give the same image."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builder.bases.make import slim_image
from builder.bases.provision import ReadyBase, ensure
from builder.bases.state import load_slim_recipe
from builder.cache_folder import claim
from builder.debian.archives import mirror
from builder.debian.fetch import GoneError
from builder.engine.client import Engine, RunSpec
from builder.locking.base_lock import LockedBase, load_bases
from builder.workspace import Workspace, cache_folder, open_workspace

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
PLATFORMS = ("linux/amd64", "linux/arm64")
# What Triton does at a model's first launch: C against Python.h, then import.
STUB = r"""
set -e
cd /tmp
cat > stub.c <<'C'
#include <Python.h>
static struct PyModuleDef stub = {PyModuleDef_HEAD_INIT, "stub", 0, -1, 0};
PyMODINIT_FUNC PyInit_stub(void) { return PyModule_Create(&stub); }
C
gcc -shared -fPIC -I"$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
    stub.c -o stub.so
python3 -c 'import stub; print("imported", stub.__name__)'
"""
OPENMP = r"""
set -e
cd /tmp
echo '#include <vector>
#include <omp.h>
int main() { std::vector<int> v{omp_get_max_threads()}; return v[0] > 0 ? 0 : 1; }' > o.cc
g++ -fopenmp o.cc -o o
./o && echo compiled
"""


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return open_workspace(ROOT / "matrix.toml")


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.connect()


@pytest.fixture(scope="module", params=PLATFORMS)
def base(request: pytest.FixtureRequest, workspace: Workspace, engine: Engine) -> ReadyBase:
    return ensure(workspace, engine, ("slim", request.param), ask=True)


def say(engine: Engine, base: ReadyBase, *command: str) -> str:
    result = engine.run_once(RunSpec(base.reference, command, platform=base.locked.platform))
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_versions_are_the_locked_ones(engine: Engine, base: ReadyBase) -> None:
    assert say(engine, base, "python3", "-V").split()[-1] == base.locked.python
    assert base.locked.glibc in say(engine, base, "ldd", "--version").splitlines()[0]
    listed = say(engine, base, "dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}\n")
    assert sorted(listed.splitlines()) == sorted(
        f"{deb.name} {deb.version} {deb.arch}" for deb in base.locked.packages)


def test_c_compiles_against_python_and_is_imported(engine: Engine, base: ReadyBase) -> None:
    assert say(engine, base, "bash", "-c", STUB).strip() == "imported stub"


def test_cxx_with_openmp_links_and_runs(engine: Engine, base: ReadyBase) -> None:
    assert say(engine, base, "bash", "-c", OPENMP).strip() == "compiled"


def test_libraries_that_no_wheel_brings_are_found(engine: Engine, base: ReadyBase) -> None:
    cached = say(engine, base, "ldconfig", "-p")
    for name in ("libnuma.so.1", "libgomp.so.1", "libibverbs.so.1", "libstdc++.so.6"):
        assert name in cached


def test_certificates_are_there(engine: Engine, base: ReadyBase) -> None:
    count = say(engine, base, "python3", "-c", "import ssl; "
                "print(len(ssl.create_default_context().get_ca_certs()))")
    assert int(count) > 100


def test_the_environment_is_declared(engine: Engine, base: ReadyBase) -> None:
    facts = engine.inspect(base.tag)
    assert facts is not None
    assert facts.env["PATH"].startswith("/opt/sparkyard/bin:")
    assert facts.env["CUDA_HOME"].endswith("/nvidia/cu13")
    assert facts.env["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert facts.env["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert facts.diff_ids == base.locked.diff_ids


def test_nothing_of_this_machine_is_in_it(engine: Engine, base: ReadyBase) -> None:
    script = "cat /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/* 2>&1; env"
    said = say(engine, base, "sh", "-c", f"{script}; ls -A /var/log /var/lib/apt/lists /tmp")
    assert "://" not in said
    assert "proxy" not in said.lower()


@pytest.mark.slow
def test_the_same_packages_give_the_same_image(workspace: Workspace, engine: Engine) -> None:
    locked = load_bases(workspace.locks / "bases.toml")["slim", engine.info.platform]
    assert _made_again(workspace, locked) == (locked.image_id, locked.diff_ids)


def _made_again(workspace: Workspace, locked: LockedBase) -> tuple[str, tuple[str, ...]]:
    try:
        with slim_image(locked, load_slim_recipe(workspace.root), workspace.cache,
                        [mirror("bookworm")]) as image:
            return image.id, image.diff_ids
    except GoneError as error:
        pytest.skip(f"the lock needs renewing: {error.what}")


@pytest.mark.slow
def test_two_that_make_one_base_at_once_make_it_once(engine: Engine, tmp_path: Path) -> None:
    """The second waits, says so, and finds what the first has made."""
    cache = claim(tmp_path / "cache")
    shutil.copytree(cache_folder() / "debs", cache / "debs")
    registry = f"127.0.0.1:5000/pair-{os.getpid()}"
    words = [sys.executable, "-m", "builder", "--matrix", str(ROOT / "matrix.toml"), "base", "slim",
             "--platform", engine.info.platform]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARKYARD_CACHE": str(cache),
                   "SPARKYARD_REGISTRY": registry}
    children = [subprocess.Popen(words, env=environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ended = [(child.communicate(timeout=600), child.returncode) for child in children]
    assert [status for _, status in ended] == [0, 0], ended
    errors = [printed[1] for printed, _ in ended]
    assert sum("installing" in text for text in errors) == 1
    assert sum("waiting for another process" in text for text in errors) == 1
    listed = subprocess.run(["docker", "images", "-q", f"{registry}/base-slim"], check=True,
                            capture_output=True, text=True).stdout.split()
    assert len(listed) == 1
    for name in subprocess.run(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}",
                                f"{registry}/base-slim"], check=True, capture_output=True,
                               text=True).stdout.split():
        engine.remove(name)
