"""Which base is used, and when one is made: present, pulled, made, or one of this machine's own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from builder.bases import provision as bases
from builder.bases import state as base_state
from builder.bases.image import BaseImage, make_image
from builder.bases.make import cuda_recipe
from builder.bases.recipe import RECIPE, load_recipe
from builder.commands import base as base_command
from builder.debian.fetch import GoneError
from builder.engine.client import Engine, ImageFacts
from builder.errors import ConfigError, LockError, NetworkError, UsageError
from builder.locking.base_lock import LockedBase, load_bases, write_bases
from builder.matrix.load import load_matrix
from builder.tarball import Tar
from builder.workspace import Workspace
from tests.unit.locking.test_base_lock import DIGEST, make_base, make_deb

KEY = ("slim", "linux/arm64")
PUSHED = "sha256:" + 64 * "c"
MATRIX = """\
schema = 1
registry = "127.0.0.1:5000/test"
[bases.slim]
flavour = "slim"
source = "sparkyard/rootfs-bookworm"
python = "3.11"
glibc = "2.36"
platforms = ["linux/amd64", "linux/arm64"]
[bases.cuda]
flavour = "cuda"
source = "nvidia/cuda:13.0.2-devel-ubuntu24.04"
python = "3.12"
glibc = "2.39"
platforms = ["linux/arm64"]
[images.cpu]
platform = "linux/arm64"
base = "slim"
vllm = "0.32.0"
"""
SLIM = 'suite = "bookworm"\npackages = ["gcc"]\n[env]\nPATH = "/bin"\n'


class FakeEngine:
    """An engine and its registry as two tables of diff ids by name."""

    def __init__(self) -> None:
        self.images: dict[str, tuple[str, ...]] = {}
        self.registry: dict[str, tuple[str, ...]] = {}
        self.loaded: list[str] = []
        self.pushed: set[str] = set()
        self.asked = 0
        self.down = False

    def inspect(self, reference: str) -> ImageFacts | None:
        layers = self.images.get(reference)
        if layers is None:
            return None
        name = f"{reference.rpartition(':')[0]}@{PUSHED}"
        pushed = (name,) if reference in self.pushed else ()
        return ImageFacts(DIGEST, layers, {}, (), pushed, 1, "linux/arm64", "", {})

    def remote_digest(self, reference: str) -> str | None:
        self.asked += 1
        if self.down:
            raise NetworkError("no answer")
        return PUSHED if reference in self.registry else None

    def pull(self, reference: str, platform: str) -> ImageFacts | None:
        self.images[reference] = self.registry[reference]
        return self.inspect(reference)

    def push(self, reference: str) -> str:
        self.registry[reference] = self.images[reference]
        self.pushed.add(reference)
        return PUSHED


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.delenv("SPARKYARD_REGISTRY", raising=False)
    (tmp_path / "images/base").mkdir(parents=True)
    (tmp_path / RECIPE).write_text(SLIM)
    (tmp_path / "images/base/cuda.Dockerfile").write_text("FROM x\n")
    (tmp_path / "matrix.toml").write_text(MATRIX)
    return Workspace(tmp_path, load_matrix(tmp_path / "matrix.toml"), (), tmp_path / "cache")


@pytest.fixture
def making(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the costly part: an image whose bytes follow from its packages (and ``salt``)."""
    state: dict[str, Any] = {"made": 0, "gone": False, "salt": ""}

    @contextmanager
    def slim_image(wanted: LockedBase, recipe: object, cache: Path) -> Iterator[BaseImage]:
        if state["gone"] and not wanted.unlocked:
            raise GoneError("Debian's mirror no longer has gcc 12")
        state["made"] += 1
        text = state["salt"] + wanted.unlocked + ",".join(deb.version for deb in wanted.packages)
        tar = Tar(cache / "x", hashlib.sha256(text.encode()).hexdigest(), 1)
        yield make_image(tar, wanted.arch, wanted.epoch, {}, {"unlocked": wanted.unlocked})

    def load(_engine: object, image: BaseImage, reference: str) -> None:
        engine.images[reference] = image.diff_ids
        engine.loaded.append(reference)

    monkeypatch.setattr(bases, "slim_image", slim_image)
    monkeypatch.setattr(bases, "load_image", load)
    monkeypatch.setattr(bases, "resolve_slim", lambda recipe, name, platform: make_base(
        platform, recipe=recipe.digest, packages=(make_deb("gcc", "12"),)))
    return state


def as_engine(engine: FakeEngine) -> Engine:
    return cast(Engine, engine)


def lock(workspace: Workspace, engine: FakeEngine) -> LockedBase:
    """Make and lock the base, then forget it everywhere."""
    locked = bases.upgrade(workspace, as_engine(engine), KEY).locked
    engine.images.clear()
    engine.registry.clear()
    engine.loaded.clear()
    return locked


def test_upgrade_locks_what_was_made(workspace: Workspace, engine: FakeEngine,
                                     making: dict[str, Any]) -> None:
    ready = bases.upgrade(workspace, as_engine(engine), KEY)
    locked = load_bases(base_state.lock_file(workspace))[KEY]
    assert locked == ready.locked
    assert locked.digest == PUSHED
    assert ready.reference == f"127.0.0.1:5000/test/base-slim@{PUSHED}"
    assert ready.tag.endswith(f":arm64-{locked.image_id[7:19]}")
    assert base_state.stale(workspace, KEY) == ""


def test_a_base_that_is_there_is_not_made_again(workspace: Workspace, engine: FakeEngine,
                                                making: dict[str, Any]) -> None:
    bases.upgrade(workspace, as_engine(engine), KEY)
    asked = engine.asked
    ready = bases.ensure(workspace, as_engine(engine), KEY)
    assert (ready.how, making["made"], engine.asked) == ("present", 1, asked)
    assert ready.reference == f"127.0.0.1:5000/test/base-slim@{PUSHED}"


def test_an_emptied_registry_is_filled_from_the_engine(workspace: Workspace, engine: FakeEngine,
                                                       making: dict[str, Any]) -> None:
    bases.upgrade(workspace, as_engine(engine), KEY)
    engine.registry.clear()
    assert bases.ensure(workspace, as_engine(engine), KEY, ask=True).how == "pushed"
    assert engine.registry
    assert making["made"] == 1


def test_an_emptied_engine_is_filled_from_the_registry(workspace: Workspace, engine: FakeEngine,
                                                       making: dict[str, Any]) -> None:
    bases.upgrade(workspace, as_engine(engine), KEY)
    engine.images.clear()
    assert bases.ensure(workspace, as_engine(engine), KEY).how == "pulled"
    assert making["made"] == 1


def test_where_neither_has_it_the_locked_packages_make_it(workspace: Workspace,
                                                          engine: FakeEngine,
                                                          making: dict[str, Any]) -> None:
    locked = lock(workspace, engine)
    ready = bases.ensure(workspace, as_engine(engine), KEY)
    assert (ready.how, ready.locked) == ("made", locked)
    assert not base_state.local_file(workspace).exists()


def test_packages_that_are_gone_give_an_unlocked_base_that_stays(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any]) -> None:
    locked = lock(workspace, engine)
    making["gone"] = True
    ready = bases.ensure(workspace, as_engine(engine), KEY)
    assert "no longer has gcc 12" in ready.locked.unlocked
    assert ready.locked.image_id != locked.image_id
    assert load_bases(base_state.lock_file(workspace))[KEY] == locked
    assert bases.effective_bases(workspace)[KEY] == ready.locked
    assert bases.ensure(workspace, as_engine(engine), KEY).how == "present"


def test_a_renewed_lock_wins_over_this_machines_own(workspace: Workspace, engine: FakeEngine,
                                                    making: dict[str, Any]) -> None:
    locked = lock(workspace, engine)
    making["gone"] = True
    bases.ensure(workspace, as_engine(engine), KEY)
    renewed = locked.model_copy(update={"image_id": "sha256:" + 64 * "d"})
    write_bases(base_state.lock_file(workspace), {KEY: renewed})
    assert bases.effective_bases(workspace)[KEY] == renewed


def test_other_bytes_from_the_same_packages_are_labelled(workspace: Workspace, engine: FakeEngine,
                                                         making: dict[str, Any]) -> None:
    locked = lock(workspace, engine)
    making["salt"] = "another dpkg"
    ready = bases.ensure(workspace, as_engine(engine), KEY)
    assert ready.locked.unlocked
    assert ready.locked.instead_of == locked.image_id
    assert engine.loaded[-1] == ready.tag


def test_without_a_lock_the_base_is_unlocked(workspace: Workspace, engine: FakeEngine,
                                             making: dict[str, Any]) -> None:
    ready = bases.ensure(workspace, as_engine(engine), KEY)
    assert ready.locked.unlocked == "there is no committed lock"


def test_a_changed_recipe_makes_the_lock_stale(workspace: Workspace, engine: FakeEngine,
                                               making: dict[str, Any]) -> None:
    lock(workspace, engine)
    (workspace.root / RECIPE).write_text(SLIM.replace('"gcc"', '"gcc", "g++"'))
    assert "changed since" in base_state.stale(workspace, KEY)
    with pytest.raises(LockError, match="changed since"):
        bases.ensure(workspace, as_engine(engine), KEY)


def test_comments_in_the_recipe_change_nothing(workspace: Workspace) -> None:
    before = load_recipe(workspace.root).digest
    (workspace.root / RECIPE).write_text("# a comment\n" + SLIM)
    assert load_recipe(workspace.root).digest == before


def test_a_misspelt_key_of_the_recipe_is_named(workspace: Workspace) -> None:
    (workspace.root / RECIPE).write_text(SLIM.replace("suite", "siute"))
    with pytest.raises(ConfigError) as caught:
        load_recipe(workspace.root)
    assert any("suite" in problem.next_step for problem in caught.value.problems)


def test_a_lock_of_another_python_than_the_matrix_says_is_stale(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any]) -> None:
    locked = lock(workspace, engine)
    write_bases(base_state.lock_file(workspace),
                {KEY: locked.model_copy(update={"python": "3.12.3"})})
    assert "3.12.3" in base_state.stale(workspace, KEY)


def test_a_locked_cuda_base_out_of_reach_is_a_plain_error(workspace: Workspace,
                                                          engine: FakeEngine) -> None:
    key = ("cuda", "linux/arm64")
    recipe = cuda_recipe(workspace.root, workspace.matrix.bases["cuda"])
    locked = make_base(name="cuda", recipe=recipe, python="3.12.3", glibc="2.39")
    write_bases(base_state.lock_file(workspace), {key: locked})
    engine.down = True
    with pytest.raises(NetworkError) as caught:
        bases.ensure(workspace, as_engine(engine), key)
    assert "on the base slim" in caught.value.next_step


def test_bases_are_chosen_by_name_and_platform(workspace: Workspace) -> None:
    assert base_state.chosen(workspace, [], ["linux/amd64"]) == [("slim", "linux/amd64")]
    assert len(base_state.chosen(workspace, [], [])) == 3
    with pytest.raises(UsageError) as caught:
        base_state.chosen(workspace, ["slin"], [])
    assert "slim" in caught.value.next_step


def test_check_refuses_a_missing_slim_lock_and_only_names_an_unmade_cuda(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any],
        capsys: pytest.CaptureFixture[str]) -> None:
    keys = [KEY, ("cuda", "linux/arm64")]
    with pytest.raises(LockError, match="slim linux/arm64: not locked"):
        base_command._check(workspace, keys)
    lock(workspace, engine)
    assert base_command._check(workspace, keys) == 0
