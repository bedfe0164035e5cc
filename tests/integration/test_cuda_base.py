"""The whole path of the ``cuda`` flavour, on a stand-in for NVIDIA's image from a local registry.

The base is made by the engine from its real Dockerfile and recipe, locked by digest, judged by,
built on and looked into. The stand-in is a Debian 13, so that Python and glibc are not those of the
slim base. The closure is small: one extension with real GPU code, compiled by the base's own nvcc,
under the name of vLLM, an empty torch, and the real pip. The last test, which CI leaves out, does
the same with all wheels of ``tf5`` on an aarch64 stand-in: all of level 1a, emulated.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder import cli
from builder.bases.provision import Origin, ReadyBase, ensure, upgrade
from builder.bases.state import BaseState, load_cuda_recipe, lock_file, read_bases
from builder.cache_folder import claim
from builder.engine.client import Engine, RunSpec
from builder.image import local_name
from builder.locking.base_lock import load_bases
from builder.locking.lock import Lock, LockedWheel, read_lock, write_lock
from builder.smoke import levels
from builder.store.content_store import Store
from builder.workspace import Workspace, cache_folder, open_workspace
from tests.integration.cuda_stand_in import ROOT, StandIn, make_stand_in

pytestmark = pytest.mark.engine

REGISTRY = "127.0.0.1:5000/stand-in"
STAND_IN = StandIn("trixie", "amd64")
KEY = ("cuda", STAND_IN.platform)
# What tf5 takes from wheels on the slim base, and a cuda base has at /usr/local/cuda.
COMPILER = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-cccl")
SOURCE = f"{REGISTRY}/nvidia-cuda:13.0-devel-debian13"
MATRIX = f"""schema = 1
registry = "{REGISTRY}"
[bases.cuda]
flavour = "cuda"
source = "{SOURCE}"
python = "3.13"
glibc = "2.41"
platforms = ["linux/amd64"]
[images.probe]
platform = "linux/amd64"
gpu = "sm_121"
cuda = "13.0"
base = "cuda"
vllm = "1.0"
"""
# A kernel for ARCH behind Python's stable interface, linked to the base's CUDA run-time library.
COMPILE = r"""
set -e
cd /tmp
cat > _C.cu <<'CU'
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
__global__ void add(float *a, float b) { a[threadIdx.x] += b; }
static PyObject *devices(PyObject *, PyObject *) {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess && count) { add<<<1, 1>>>(nullptr, 1.0f); }
    return PyLong_FromLong(count);
}
static PyMethodDef methods[] = {{"devices", devices, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", NULL, -1, methods};
PyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&module); }
CU
include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
nvcc -gencode arch=compute_ARCH,code=sm_ARCH -shared -Xcompiler -fPIC --cudart shared \
    -I"$include" -o _C.abi3.so _C.cu
base64 -w0 _C.abi3.so
"""


def make_wheel(folder: Path, name: str, version: str, files: dict[str, bytes],
               tag: str = "py3-none-any") -> LockedWheel:
    """Write a wheel with a true RECORD; return its lock row."""
    info = f"{name}-{version}.dist-info"
    files = {**files, f"{info}/METADATA":
             f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
             f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: "
             f"{str(tag.endswith('any')).lower()}\nTag: {tag}\n".encode()}
    record = "".join(
        f"{path},sha256="
        f"{base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},"
        f"{len(data)}\n" for path, data in files.items()) + f"{info}/RECORD,,\n"
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(zipfile.ZipInfo(member), data)
    data = path.read_bytes()
    return LockedWheel(name=name, version=version, file=path.name, size=len(data),
                       sha256=hashlib.sha256(data).hexdigest(), index="default")


def compiled(engine: Engine, base: ReadyBase, arch: str) -> bytes:
    """Compile the extension for one GPU architecture in the base itself."""
    done = engine.run_once(RunSpec(base.reference, ("bash", "-c", COMPILE.replace("ARCH", arch)),
                                   platform=base.locked.platform, network="none"))
    assert done.returncode == 0, done.stderr
    return base64.b64decode(done.stdout)


def locked_closure(workspace: Workspace, extension: bytes) -> Lock:
    """Lock the probe's closure and put its wheels into the store: vllm, torch, the real pip."""
    folder, store = workspace.root, Store(workspace.cache)
    made = [make_wheel(folder, "torch", "2.11.0", {"torch/__init__.py": b""}),
            make_wheel(folder, "vllm", "1.0", {"vllm/__init__.py": b"",
                                               "vllm/_C.abi3.so": extension},
                       "cp311-abi3-linux_x86_64")]
    for wheel in made:
        store.add_wheel(wheel, folder / wheel.file)
    pip = read_lock(ROOT / "locks" / "cpu.toml").wheel("pip")
    assert pip is not None
    cell = workspace.cells[0]
    lock = Lock(cell=cell.id, intent=cell.intent_digest, python="3.13",
                platform="x86_64-manylinux_2_41",
                wheels=tuple(sorted((*made, pip), key=lambda wheel: wheel.name)))
    write_lock(workspace.locks, lock)
    return lock


def forget(engine: Engine) -> None:
    """Remove every image of these tests from the engine."""
    listed = subprocess.run(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}",
                             "--filter", f"reference={REGISTRY}/*"],
                            capture_output=True, text=True, check=True).stdout
    for reference in listed.split():
        if not reference.endswith("<none>"):
            engine.remove(reference)


def make_checkout(folder: Path, matrix: str) -> Workspace:
    """Make a checkout with the project's own recipes and images, and a cache of its own."""
    (folder / "matrix.toml").write_text(matrix)
    for name in ("images", "recipes", "tests/fixtures/tiny-gemma4"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "locks").mkdir()
    claim(folder / "cache")
    opened = open_workspace(folder / "matrix.toml")
    return Workspace(opened.root, opened.matrix, opened.cells, folder / "cache")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    connected = Engine.connect()
    yield connected
    forget(connected)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Workspace:
    make_stand_in(engine, STAND_IN, SOURCE)
    return make_checkout(tmp_path_factory.mktemp("cuda"), MATRIX)


@pytest.fixture(scope="module")
def base(workspace: Workspace, engine: Engine) -> ReadyBase:
    return upgrade(workspace, engine, KEY)


@pytest.fixture(scope="module")
def lock(workspace: Workspace, engine: Engine, base: ReadyBase) -> Lock:
    return locked_closure(workspace, compiled(engine, base, "121a"))


def sparkyard(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setenv("SPARKYARD_CACHE", str(workspace.cache))
    return cli.run(["--matrix", str(workspace.root / "matrix.toml"), *words])


def test_the_base_is_locked_by_the_digest_in_the_registry(
        workspace: Workspace, engine: Engine, base: ReadyBase, monkeypatch: pytest.MonkeyPatch
        ) -> None:
    locked = load_bases(lock_file(workspace))[KEY]
    assert locked == base.locked
    assert (locked.python[:5], locked.glibc, locked.source) == ("3.13.", "2.41", SOURCE)
    assert engine.remote_digest(base.tag) == locked.digest
    packages = {deb.name for deb in locked.packages}
    assert {"python3.13-dev", "gcc", "g++", "libnuma1", "librdmacm1t64"} <= packages
    assert read_bases(workspace).standings[KEY].state is BaseState.LOCKED
    assert sparkyard(workspace, monkeypatch, "base", "--check") == 0


def test_another_machine_pulls_exactly_it(workspace: Workspace, engine: Engine, base: ReadyBase
                                          ) -> None:
    engine.remove(base.tag)
    engine.remove(f"{REGISTRY}/base-cuda:amd64-new")
    ready = ensure(workspace, engine, KEY)
    assert (ready.origin, ready.locked) == (Origin.PULLED, base.locked)


def test_nvidias_banner_is_gone(engine: Engine, base: ReadyBase) -> None:
    assert engine.run_once(RunSpec(base.reference, ("echo", "said"))).stdout == "said\n"


def test_the_gate_judges_by_the_facts_of_that_base(
        workspace: Workspace, lock: Lock, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")  # the committed facts suffice
    assert sparkyard(workspace, monkeypatch, "gate", "probe", "--json") == 0
    [report] = json.loads(capsys.readouterr().out)
    assert report["base"] == "cuda"


def test_the_gate_refuses_code_for_another_gpu(
        workspace: Workspace, engine: Engine, base: ReadyBase, monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = make_checkout(tmp_path, MATRIX)
    shutil.copytree(workspace.locks, other.locks, dirs_exist_ok=True)
    locked_closure(other, compiled(engine, base, "90"))
    assert sparkyard(other, monkeypatch, "gate", "probe") == 1
    assert "sm_121" in capsys.readouterr().out


def test_a_cell_is_built_on_it_and_level_1a_looks_into_it(
        workspace: Workspace, engine: Engine, lock: Lock, monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path) -> None:
    """Level 1a without its last script, whose imports need the real torch and transformers."""
    assert sparkyard(workspace, monkeypatch, "build", "probe") == 0
    image = local_name(workspace.registry, workspace.cells[0])
    code = "import sys, vllm._C; print(vllm._C.devices(), sys.version_info[:2], sys.prefix)"
    done = engine.run_once(RunSpec(image, ("python", "-c", code), network="none"))
    assert done.stdout.strip() == "0 (3, 13) /opt/sparkyard", done.stderr
    monkeypatch.setattr(levels, "L1A", ("look.py", "extensions.py"))
    record = tmp_path / "record.json"
    assert sparkyard(workspace, monkeypatch, "smoke", "probe", "--level", "1a", "--model",
                     str(ROOT / "tests/fixtures/tiny-gemma4"), "--json", str(record)) == 0
    checks = {check["check"]: check for check in json.loads(record.read_text())["checks"]}
    assert "sm_121a" in checks["nvcc compiles for 12.1a"]["detail"]
    assert checks["every extension loads, all symbols bound"]["detail"] == "1 load"
    assert {check["status"] for check in checks.values()} <= {"pass", "not applicable"}


@pytest.mark.slow
@pytest.mark.skipif("SPARKYARD_FULL_CUDA" not in os.environ, reason="takes 6 minutes and 9 GB "
                    "beside a built tf5: all its wheels on an arm64 stand-in, emulated; "
                    "set SPARKYARD_FULL_CUDA=1")
def test_tf5_on_a_cuda_base_answers_at_level_1a(
        engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All of level 1a. Python 3.11, for which this checkout has all of tf5's wheels locked.

    The base's packages are in the stand-in already, so that the Dockerfile's step, the one that is
    emulated, has little to do.
    """
    source = f"{REGISTRY}/nvidia-cuda:13.0-devel-debian12"
    packages = load_cuda_recipe(ROOT).packages_for("3.11")
    make_stand_in(engine, StandIn("bookworm", "arm64", packages), source)
    text = (ROOT / "matrix.toml").read_text()
    for old, new in (("nvidia/cuda:13.0.2-devel-ubuntu24.04", source), ("3.12", "3.11"),
                     ('"2.39"', '"2.36"'), ("127.0.0.1:5000/sparkyard", REGISTRY)):
        assert old in text
        text = text.replace(old, new)
    made = make_checkout(tmp_path, text)
    workspace = Workspace(made.root, made.matrix, made.cells, cache_folder())  # its wheels, layers
    upgrade(workspace, engine, ("cuda", "linux/arm64"))
    cell = next(cell for cell in workspace.cells if cell.id == "tf5-cuda")
    slim = read_lock(ROOT / "locks" / "tf5.toml")
    write_lock(workspace.locks, slim.model_copy(update={
        "cell": cell.id, "intent": cell.intent_digest,
        "wheels": tuple(wheel for wheel in slim.wheels if wheel.name not in COMPILER)}))
    assert sparkyard(workspace, monkeypatch, "build", cell.id) == 0
    record = tmp_path / "record.json"
    assert sparkyard(workspace, monkeypatch, "smoke", cell.id, "--level", "1a", "--json",
                     str(record), "--model", str(ROOT / "tests/fixtures/tiny-gemma4")) == 0
    checks = {check["check"]: check["status"]
              for check in json.loads(record.read_text())["checks"]}
    assert checks["Gemma 4 answers (transformers)"] == "pass"
    assert checks["nvcc compiles for 12.1a"] == "pass"
