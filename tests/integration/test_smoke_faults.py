"""Smoke cut off and cramped: each time a clean end, clear words, and the record kept up to there.

The faults are of this program and its engine, not of vLLM, so that a server which poses as vLLM's
(``tests/fixtures/posing``) stands in for it, in an image of the base alone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from builder import labels as label
from builder.engine.client import Engine, RunSpec
from builder.record.check import Status
from builder.record.models import Record
from builder.record.reader import read_record
from tests.integration.test_build import daemon

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
IMAGE = f"sparkyard-posing:{os.getpid()}"
INSIDE = "/opt/posing"
RECIPE = """schema = 1
description = "No model: a server that poses as vLLM's"
family = "gemma4"
image = "cpu"
serve = []
[model]
path = "tiny"
parameters_billion = 1
active_billion = 1
[capabilities]
tools = true
reasoning = true
[[log.must_show]]
pattern = "Application startup complete"
why = "the server is up"
[environment]
"""
# The containers of both engines hang on one bridge: their addresses must not be the same ones.
OTHER_ADDRESSES = ("--fixed-cidr", "172.17.128.0/24")


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True
                          ).stdout.strip()


def pose(folder: Path) -> Path:
    """Lay out what the image gets: the server, where ``python -m`` finds vLLM's."""
    package = folder / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "fixtures" / "posing" / "api_server.py", package)
    # fake_openai looks for the dialogues beside its parent folder.
    (folder / "unit").mkdir()
    shutil.copy(ROOT / "tests" / "unit" / "fake_openai.py", folder / "unit")
    known = Path("fixtures", "train_tiny_gemma4", "dialogues.json")
    (folder / known.parent).mkdir(parents=True)
    shutil.copy(ROOT / "tests" / known, folder / known)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to("/usr/bin/python3")
    return folder


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Make the posing image on the base of the CPU image, which is built where it is not there."""
    subprocess.run([sys.executable, "-m", "builder", "--matrix", str(ROOT / "matrix.toml"), "build",
                    "cpu"], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True,
                   capture_output=True)
    engine = Engine.connect()
    built = engine.inspect("127.0.0.1:5000/sparkyard/cpu:cpu")
    assert built is not None
    box = docker("create", built.labels[label.PREFIX + "base.id"], "true")
    try:
        docker("cp", f"{pose(tmp_path_factory.mktemp('posing') / 'site')}/.", f"{box}:{INSIDE}")
        docker("commit", "--change", f"ENV PYTHONPATH={INSIDE}:{INSIDE}/unit", "--change",
               f"ENV PATH={INSIDE}/bin:/usr/bin:/bin", "--change", "ENTRYPOINT []", box, IMAGE)
        yield IMAGE
    finally:
        docker("rm", "--force", box)
        engine.remove(IMAGE)


class Place:
    """A checkout with the recipe ``posing`` and a cache folder of its own."""

    def __init__(self, root: Path, **environment: str) -> None:
        """Lay it out; ``environment`` is the server's."""
        self.root, self.cache = root, root / "cache"
        for folder in ("recipes", "tiny", "cache"):
            (root / folder).mkdir()
        for name in ("matrix.toml", "locks"):
            (root / name).symlink_to(ROOT / name)
        (root / "tiny" / "config.json").write_text("{}")
        lines = [f'{name} = "{value}"' for name, value in environment.items()]
        (root / "recipes" / "posing.toml").write_text(RECIPE + "\n".join(lines) + "\n")

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start ``sparkyard``."""
        return subprocess.Popen(
            [sys.executable, "-m", "builder", "--matrix", str(self.root / "matrix.toml"), *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), "SPARKYARD_CACHE": str(self.cache),
                 **environment}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def smoke(self, image: str, **environment: str) -> subprocess.Popen[str]:
        """Start ``sparkyard smoke`` at level 2."""
        return self.start("smoke", "cpu", "--level", "2", "--recipe", "posing", "--image", image,
                          **environment)

    def record(self) -> Record:
        """Read the one record."""
        (path,) = (self.cache / "records").glob("*/*.json")
        return read_record(path)

    def wait_for(self, child: subprocess.Popen[str], checks: int) -> None:
        """Wait until so many checks are in the record."""
        for _ in range(6000):
            if list(self.cache.glob("records/*/*.json")) and len(self.record().checks) >= checks:
                return
            assert child.poll() is None, child.communicate()
            time.sleep(0.1)
        raise AssertionError(f"no {checks} checks in ten minutes")


def ended(child: subprocess.Popen[str], status: int) -> str:
    """Wait for the end and return what was said: one exit code, no traceback."""
    with child:
        said = child.communicate(timeout=600)[1]
    assert child.returncode == status, said
    assert "Traceback" not in said
    return said


def nothing_failed(record: Record) -> bool:
    """Say whether something was seen and nothing of it was bad."""
    states = {check.status for check in record.checks}
    return Status.PASS in states and not states & {Status.FAIL, Status.FLAKY}


def containers(image: str) -> list[str]:
    return docker("ps", "--all", "--quiet", "--filter", f"ancestor={image}").split()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[Path], None]]:
    """Mount small file systems in memory and take them off again."""
    with ExitStack() as stack:
        def mount(folder: Path) -> None:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", folder], check=True)
            stack.callback(subprocess.run, ["umount", "-l", folder], check=True)
        yield mount


def test_a_taken_port_is_in_nobodys_way(image: str, tmp_path: Path) -> None:
    """The server's own port is taken on this machine; the engine publishes another."""
    place = Place(tmp_path)
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind(("127.0.0.1", 8000))
            holder.listen()
        except OSError:
            pass  # somebody else has it: all the better
        ended(place.smoke(image), 0)
    record = place.record()
    assert (record.state, record.verdict, record.phases["start"] >= 0) == ("finished", "pass", True)
    assert record.metrics['vllm:num_requests_running{engine="0"}'] == 0
    assert (place.cache / record.log).read_text().endswith("Application startup complete.\n")
    assert containers(image) == []


def test_the_engine_walks_past_ports_that_are_taken(image: str) -> None:
    """It gives ports in a row: the next ones are taken, by programs that it does not know of."""
    engine, spec = Engine.connect(), RunSpec(image, ("sleep", "60"), ports=(8000,))
    with ExitStack() as stack:
        first = stack.enter_context(engine.start(spec)).published_port(8000)
        taken = set()
        for port in range(first + 1, first + 4):
            holder = stack.enter_context(socket.socket())
            try:
                holder.bind(("127.0.0.1", port))
                holder.listen()
            except OSError:
                pass
            taken.add(port)
        assert stack.enter_context(engine.start(spec)).published_port(8000) not in {first, *taken}


def test_an_interrupted_run_keeps_what_it_saw(image: str, tmp_path: Path) -> None:
    place = Place(tmp_path, POSING_PAUSE="1")
    child = place.smoke(image)
    place.wait_for(child, 3)
    child.send_signal(signal.SIGINT)
    said = ended(child, 130)
    record = place.record()
    assert (record.state, record.verdict) == ("interrupted", "none")
    assert "interrupted" in record.reason
    assert len(record.checks) >= 3
    assert nothing_failed(record)
    assert "the record up to this point" in said
    assert containers(image) == []


def test_a_request_to_end_does_not_wait_for_answers_that_never_come(
        image: str, tmp_path: Path) -> None:
    place = Place(tmp_path, POSING_STUCK="yes", POSING_PAUSE="0.1")
    child = place.smoke(image)
    place.wait_for(child, 1)
    log = place.cache / place.record().log
    while "stuck" not in log.read_text().splitlines():
        assert child.poll() is None, child.communicate()
        time.sleep(0.1)
    child.send_signal(signal.SIGTERM)
    ended(child, 130)
    assert place.record().state == "interrupted"
    assert containers(image) == []


def test_a_killed_run_leaves_a_record_and_a_log(image: str, tmp_path: Path) -> None:
    place = Place(tmp_path, POSING_PAUSE="1")
    child = place.smoke(image)
    place.wait_for(child, 3)
    child.kill()
    child.communicate()
    record = place.record()
    assert (record.state, record.verdict, record.passed) == ("running", "none", False)
    assert len(record.checks) >= 3
    assert "Application startup complete" in (place.cache / record.log).read_text()
    assert Engine.connect().sweep() >= 1
    assert containers(image) == []


def test_a_disk_that_fills_ends_the_run_in_words(
        image: str, tmp_path: Path, small_disk: Callable[[Path], None]) -> None:
    place = Place(tmp_path)
    small_disk(place.cache)
    said = ended(place.smoke(image), 5)
    assert "the disk became full while the" in said
    record = place.record()
    assert (record.state, record.verdict) == ("running", "none")
    assert record.checks
    left = [path for path in place.cache.glob("*/**/*") if path.is_file()]
    assert {path.suffix for path in left} == {".json", ".log"}
    assert containers(image) == []


def test_an_engine_that_goes_away_is_no_verdict(image: str, tmp_path: Path,
                                               tmp_path_factory: pytest.TempPathFactory) -> None:
    """Stopped while the server is asked, and the second time started anew at once."""
    folder, archive = tmp_path_factory.mktemp("away"), tmp_path / "image.tar"
    docker("save", "--output", str(archive), image)
    for again in (False, True):
        (tmp_path / str(again)).mkdir()
        place = Place(tmp_path / str(again), POSING_PAUSE="0.5")
        with ExitStack() as stack:
            with daemon(folder, *OTHER_ADDRESSES) as (server, host):
                if not again:
                    Engine.connect(host=host).load(archive)
                    archive.unlink()
                child = place.smoke(image, DOCKER_HOST=host)
                place.wait_for(child, 3)
                server.terminate()
                server.wait(timeout=600)
            if again:
                stack.enter_context(daemon(folder, *OTHER_ADDRESSES))
            said = ended(child, 5)
        assert "error: " in said
        record = place.record()
        assert record.state == "interrupted"
        assert "engine" in record.reason
        assert nothing_failed(record)
        assert str(folder) not in json.dumps(record.document())
    shutil.rmtree(folder, ignore_errors=True)  # a third of a GB
