"""The foreign tools read what we export, and what they make of it answers."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
import yaml
from exported import ROOT, service
from jsonschema import Draft202012Validator

from builder.image import local_name
from builder.matrix.cells import select
from builder.recipes.exports.formats import FORMATS
from builder.recipes.exports.service import LOOPBACK, Asked, Image, plan_service
from builder.recipes.load import load_recipe, recipe_names
from builder.workspace import open_workspace
from tests.integration.foreign import compose, packages, python_image, run
from tests.integration.served import free_port

WORKSPACE = open_workspace(ROOT / "matrix.toml")
ADDRESS = "127.0.0.77"  # of this machine: its port 8000 is free, whatever else runs
BOOT_S = 600
# Of what sparkrun prints, what this machine may not have: a GPU, and limits above its own.
NOT_HERE = re.compile(r"--gpus device=0 |--ulimit \S+ ")
# What level 1a launches an image with (builder/smoke/contract.py), in sparkrun's own words.
LAUNCHED = ("--ipc=shareable ", "--shm-size=32gb ", "--user $(id -u):$(id -g) ", "-e HOME=/tmp ",
            "--security-opt no-new-privileges ")


@pytest.fixture(scope="module")
def image() -> str:
    """Build the cpu image where it is not there."""
    done = run([sys.executable, "-m", "builder", "build", "cpu"], ROOT)
    assert done.returncode == 0, done.stderr
    cell, = select(WORKSPACE.cells, ["cpu"], None)
    return local_name(WORKSPACE.registry, cell)


def tiny(format_name: str, image: str, host: str = LOOPBACK) -> str:
    cell, = select(WORKSPACE.cells, ["cpu"], None)
    return FORMATS[format_name](plan_service(
        load_recipe(ROOT, "tiny-gemma4"), cell, Image(image, "of this machine"), ROOT,
        Asked(host)))


def answer(address: str, port: int) -> str:
    """Wait until the server answers, and return what it says."""
    url, end = f"http://{address}:{port}", time.monotonic() + BOOT_S
    question = {"model": "tiny-gemma4", "temperature": 0, "messages": [
        {"role": "user", "content": "What is the capital of France?"}]}
    with requests.Session() as session:
        session.trust_env = False
        while time.monotonic() < end:
            try:
                said = session.post(f"{url}/v1/chat/completions", json=question, timeout=300)
            except requests.ConnectionError:
                time.sleep(1)
                continue
            return str(said.json()["choices"][0]["message"]["content"])
    return "no answer"


@pytest.mark.engine
@pytest.mark.slow
def test_docker_compose_accepts_every_recipe_and_starts_one(tmp_path: Path, image: str) -> None:
    tool = compose(WORKSPACE.cache, tmp_path / "tool")
    (tmp_path / "key").write_text("VLLM_API_KEY=k\n")
    file = tmp_path / "compose.yaml"
    for name in recipe_names(ROOT):
        file.write_text(FORMATS["compose"](service(name, key_file="key")))
        done = run([tool, "-f", file, "config", "-q"], tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), name
    file.write_text(tiny("compose", image, ADDRESS))
    words = [tool, "-f", file, "-p", f"sparkyard-{tmp_path.name[-12:].replace('_', '-')}"]
    try:
        done = run([*words, "up", "--detach"], tmp_path)
        assert done.returncode == 0, done.stderr
        assert answer(ADDRESS, 8000) == "The capital of France is Paris."
    finally:
        run([*words, "down", "--timeout", "5"], tmp_path)


def test_systemd_accepts_every_recipe(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze") or not shutil.which("docker"):
        pytest.skip("systemd-analyze or docker is not installed")
    for name in recipe_names(ROOT):
        unit = tmp_path / f"{name}.service"
        unit.write_text(FORMATS["systemd"](service(name, key_file="key")))
        done = run(["systemd-analyze", "verify", unit], tmp_path)
        assert done.returncode == 0, done.stderr
        assert unit.name not in done.stderr  # it also complains of other units of the machine


@pytest.mark.slow
def test_kubernetes_accepts_every_recipe_for_one_and_for_two_machines(tmp_path: Path) -> None:
    """A LeaderWorkerSet is none of Kubernetes' own kinds: its pods are, and its own schema."""
    site = packages("kubernetes.txt", tmp_path / "site")
    judge = Draft202012Validator(json.loads(
        (ROOT / "tests/fixtures/leaderworkerset-subset.json").read_text()))
    documents = []
    for name in recipe_names(ROOT):
        for nodes in (1, 2):
            text = FORMATS["kubernetes"](service(name, key_file="key", nodes=nodes))
            for document in filter(None, yaml.safe_load_all(text)):
                documents += core_kinds(document, judge)
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(documents))
    done = run([sys.executable, site / "bin/kubernetes-validate", "--strict", "all.yaml"],
               tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(document["kind"] == "Pod" for document in documents) == 2 * len(recipe_names(ROOT))


def core_kinds(document: dict, judge: Draft202012Validator) -> list[dict]:  # type: ignore[type-arg]
    """Return what Kubernetes itself knows: the document, or the pods of a LeaderWorkerSet."""
    if document["kind"] != "LeaderWorkerSet":
        return [document]
    judge.validate(document)
    group = document["spec"]["leaderWorkerTemplate"]
    return [{"apiVersion": "v1", "kind": "Pod", "spec": group[name]["spec"],
             "metadata": {"name": "pod", **group[name]["metadata"]}}
            for name in ("leaderTemplate", "workerTemplate")]


@pytest.fixture(scope="module")
def sparkrun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Return the command that runs sparkrun in a container with Python 3.13, offline."""
    folder = tmp_path_factory.mktemp("sparkrun")
    site = packages("sparkrun.txt", folder / "site", "--python-version", "3.13",
                    "--ignore-requires-python")
    with python_image(WORKSPACE.cache) as python:
        yield ["docker", "run", "--rm", "--network", "none", "-v", f"{folder}:{folder}",
               "-w", str(folder), "-e", f"HOME={folder}", "-e", f"PYTHONPATH={site}",
               "-v", f"{shutil.which('docker')}:/usr/bin/docker:ro",
               "-v", "/var/run/docker.sock:/var/run/docker.sock",
               # Its registries of recipes are elsewhere: no clone is tried for long.
               "-v", f"{shutil.which('false')}:/usr/bin/git:ro", python, "python3",
               str(site / "bin/sparkrun")]


def folder_of(sparkrun: list[str]) -> Path:
    return Path(sparkrun[sparkrun.index("-w") + 1])


@pytest.mark.engine
@pytest.mark.slow
def test_sparkrun_accepts_every_recipe_for_one_and_for_two_machines(sparkrun: list[str]) -> None:
    folder, names = folder_of(sparkrun), []
    for recipe in recipe_names(ROOT):
        for nodes in (1, 2):
            names.append(folder / str(nodes) / f"{recipe}.yaml")
            names[-1].parent.mkdir(exist_ok=True)
            names[-1].write_text(FORMATS["sparkrun"](service(recipe, nodes=nodes)))
    loop = "for file in " + shlex.join(map(str, names)) + '; do "$@" "$file" || exit; done'
    at = sparkrun.index("python3")
    done = run([*sparkrun[:at], "sh", "-c", loop, "sh", *sparkrun[at:], "recipe", "validate",
                "--strict"], folder)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def as_printed(text: str, folder: Path) -> Iterator[None]:
    """Execute what ``run --dry-run`` printed: the container, and the server in it."""
    command = NOT_HERE.sub("", next(line.partition("docker run command: ")[2]
                                    for line in text.splitlines() if "docker run command" in line))
    name = re.search(r"--name (\S+)", command)
    serve = re.search(r"\nServe command:\n((?:  .*\n)+)", text)
    assert name
    assert serve
    try:
        subprocess.run(["bash", "-c", command], cwd=folder, check=True, capture_output=True)
        subprocess.run(["docker", "exec", "--detach", name[1], "bash", "-c", serve[1]], check=True)
        yield
    finally:
        subprocess.run(["docker", "rm", "--force", name[1]], check=False, capture_output=True)


@pytest.mark.engine
@pytest.mark.slow
def test_what_sparkrun_would_run_answers(sparkrun: list[str], image: str) -> None:
    folder, port = folder_of(sparkrun), free_port()
    (folder / "tiny-gemma4.yaml").write_text(tiny("sparkrun", image))
    done = run([*sparkrun, "-vvv", "run", "./tiny-gemma4.yaml", "--dry-run", "--no-auto-detect",
                "--offline", "--hosts", "127.0.0.1", "--tp", "1", "--port", str(port)], folder)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    assert [option for option in LAUNCHED if option not in text] == []
    with as_printed(text, folder):
        assert answer("127.0.0.1", port) == "The capital of France is Paris."
