"""Which base is used, and when one is made: present, pulled, made, or one of this machine's own."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from builder.bases import facts as base_facts
from builder.bases import provision as bases
from builder.bases import retained
from builder.bases.cuda import built_name
from builder.bases.make import PLACEHOLDER, BaseImage, make_image
from builder.bases.provision import Origin
from builder.bases.state import (
    CUDA_DOCKERFILE,
    CUDA_RECIPE,
    SLIM_RECIPE,
    BaseState,
    image_tag,
    local_file,
    lock_file,
    read_bases,
    recipe_digest,
)
from builder.binaries.facts import BaseFacts
from builder.debian import archives
from builder.debian.fetch import GoneError, Source
from builder.engine.client import Engine, ImageFacts
from builder.errors import LockError, NetworkError
from builder.locking.base_lock import LockedBase, load_bases, write_bases
from builder.matrix.load import load_matrix
from builder.tarball import Tar
from builder.workspace import Workspace
from tests.unit.locking.test_base_lock import DIGEST, make_base, make_deb
from tests.unit.matrices import SLIM_TEXT

KEY = ("slim", "linux/arm64")
CUDA_KEY = ("cuda", "linux/arm64")
TIME = "20261121T235959Z"
PUSHED = "sha256:" + 64 * "c"
MATRIX = SLIM_TEXT + """[bases.cuda]
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
CUDA = 'packages = ["python{python}"]\n[env]\nPATH = "/bin"\n'


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
        name = reference.partition("@")[0]
        [tagged] = [one for one in self.registry if one.startswith(f"{name}:")]
        self.images[reference] = self.registry[tagged]
        return self.inspect(reference)

    def tag(self, reference: str, new: str) -> None:
        self.images[new] = self.images[reference]

    def push(self, reference: str) -> str:
        self.registry[reference] = self.images[reference]
        self.pushed.add(reference)
        return PUSHED


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture(autouse=True)
def _only_the_engine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the file system of a base, and for a registry that only the engine reaches."""
    def image_digest(*_words: object) -> str:
        raise NetworkError("no answer")

    monkeypatch.setattr(retained, "image_digest", image_digest)
    monkeypatch.setattr(retained, "packages_kept", lambda *_words: True)
    monkeypatch.setattr(base_facts, "of_image", lambda _engine, image, _cache, name: BaseFacts(
        name, image.id, image.platform, "3.11", "2.36"))


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    for variable in ("SPARKYARD_REGISTRY", archives.VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "images/base").mkdir(parents=True)
    (tmp_path / SLIM_RECIPE).write_text(SLIM)
    (tmp_path / CUDA_RECIPE).write_text(CUDA)
    (tmp_path / CUDA_DOCKERFILE).write_text("FROM x\n")
    (tmp_path / "matrix.toml").write_text(MATRIX)
    return Workspace(tmp_path, load_matrix(tmp_path / "matrix.toml"), (), tmp_path / "cache")


@pytest.fixture
def making(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the costly part: an image whose bytes follow from its packages (and ``salt``)."""
    state: dict[str, Any] = {"made": 0, "gone": False, "salt": ""}

    @contextmanager
    def slim_image(wanted: LockedBase, recipe: object, cache: Path, sources: Sequence[Source]
                   ) -> Iterator[BaseImage]:
        state["sources"] = [source.title for source in sources]
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
    monkeypatch.setattr(bases, "resolve_slim", lambda recipe, base, key: make_base(
        key[1], recipe=recipe.digest, image_id=PLACEHOLDER, snapshot=TIME,
        packages=(make_deb("gcc", "12"),)))
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
    locked = load_bases(lock_file(workspace))[KEY]
    assert locked == ready.locked
    assert locked.digest == PUSHED
    assert ready.reference == f"127.0.0.1:5000/sparkyard/base-slim@{PUSHED}"
    assert ready.tag.endswith(f":arm64-{locked.image_id[7:19]}")
    assert read_bases(workspace).standings[KEY].state is BaseState.LOCKED
    facts = base_facts.committed(workspace.locks, locked)
    assert facts is not None
    assert facts.digest == locked.image_id


def test_a_base_that_is_there_is_not_made_again(workspace: Workspace, engine: FakeEngine,
                                                making: dict[str, Any]) -> None:
    bases.upgrade(workspace, as_engine(engine), KEY)
    asked = engine.asked
    ready = bases.ensure(workspace, as_engine(engine), KEY)
    assert (ready.origin, making["made"], engine.asked) == ("present", 1, asked)
    assert ready.reference == f"127.0.0.1:5000/sparkyard/base-slim@{PUSHED}"


def test_an_emptied_registry_is_filled_from_the_engine(workspace: Workspace, engine: FakeEngine,
                                                       making: dict[str, Any]) -> None:
    bases.upgrade(workspace, as_engine(engine), KEY)
    engine.registry.clear()
    assert bases.ensure(workspace, as_engine(engine), KEY, ask=True).origin == "pushed"
    assert engine.registry
    assert making["made"] == 1


def test_an_emptied_engine_is_filled_from_the_registry(workspace: Workspace, engine: FakeEngine,
                                                       making: dict[str, Any]) -> None:
    bases.upgrade(workspace, as_engine(engine), KEY)
    engine.images.clear()
    assert bases.ensure(workspace, as_engine(engine), KEY).origin == "pulled"
    assert making["made"] == 1


def test_where_neither_has_it_the_locked_packages_make_it(workspace: Workspace,
                                                          engine: FakeEngine,
                                                          making: dict[str, Any]) -> None:
    locked = lock(workspace, engine)
    ready = bases.ensure(workspace, as_engine(engine), KEY)
    assert (ready.origin, ready.locked) == ("made", locked)
    assert not local_file(workspace).exists()


def test_packages_that_are_gone_give_an_unlocked_base_that_stays(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any]) -> None:
    locked = lock(workspace, engine)
    making["gone"] = True
    ready = bases.ensure(workspace, as_engine(engine), KEY)
    assert "no longer has gcc 12" in ready.locked.unlocked
    assert ready.locked.image_id != locked.image_id
    assert load_bases(lock_file(workspace))[KEY] == locked
    assert read_bases(workspace).get(KEY) == ready.locked
    assert bases.ensure(workspace, as_engine(engine), KEY).origin == "present"


def test_a_renewed_lock_wins_over_this_machines_own(workspace: Workspace, engine: FakeEngine,
                                                    making: dict[str, Any]) -> None:
    locked = lock(workspace, engine)
    making["gone"] = True
    bases.ensure(workspace, as_engine(engine), KEY)
    renewed = locked.model_copy(update={"image_id": "sha256:" + 64 * "d"})
    write_bases(lock_file(workspace), {KEY: renewed})
    assert read_bases(workspace).get(KEY) == renewed


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
    assert ready.locked.unlocked == "it has no committed lock"


def test_a_changed_recipe_makes_the_lock_stale(workspace: Workspace, engine: FakeEngine,
                                               making: dict[str, Any]) -> None:
    lock(workspace, engine)
    (workspace.root / SLIM_RECIPE).write_text(SLIM.replace('"gcc"', '"gcc", "g++"'))
    with pytest.raises(LockError, match="has changed since") as caught:
        bases.ensure(workspace, as_engine(engine), KEY)
    assert "./nox -s base -- slim --upgrade" in caught.value.next_step
    assert making["made"] == 1


def test_two_platforms_that_are_made_at_once_both_stay(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Read, change, write: without a lock of its own the slower one would undo the faster one."""
    together = threading.Barrier(2)

    def slow_read(path: Path) -> dict[Any, LockedBase]:
        found = load_bases(path)
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(0.3)  # in time only where both are let in at once
        return found

    monkeypatch.setattr(bases, "load_bases", slow_read)
    keys = [KEY, ("slim", "linux/amd64")]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda key: bases.upgrade(workspace, as_engine(engine), key), keys))
    assert set(load_bases(lock_file(workspace))) == set(keys)


def test_two_processes_that_want_one_base_make_it_once(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any]) -> None:
    lock(workspace, engine)
    before = making["made"]
    with ThreadPoolExecutor(2) as pool:
        ready = list(pool.map(lambda _: bases.ensure(workspace, as_engine(engine), KEY), range(2)))
    assert making["made"] == before + 1
    assert {base.reference for base in ready} == {ready[0].reference}


def test_a_cuda_base_is_tagged_pushed_and_locked_by_the_digest_there(
        workspace: Workspace, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_base(name="cuda", digest=PLACEHOLDER, python="3.12.3", glibc="2.39",
                     recipe=recipe_digest(workspace.root, workspace.matrix.bases["cuda"]))

    def make_cuda(_engine: object, _root: object, _base: object, key: Any, registry: str
                  ) -> LockedBase:
        engine.images[built_name(registry, key)] = made.diff_ids
        return made

    monkeypatch.setattr(bases, "make_cuda", make_cuda)
    ready = bases.upgrade(workspace, as_engine(engine), CUDA_KEY)
    assert ready.locked.digest == PUSHED
    assert set(engine.registry) == {image_tag(workspace.registry, made)}
    assert read_bases(workspace).standings[CUDA_KEY].state is BaseState.LOCKED
    engine.images.clear()
    assert bases.ensure(workspace, as_engine(engine), CUDA_KEY).origin is Origin.PULLED


def test_a_locked_cuda_base_out_of_reach_is_a_plain_error(workspace: Workspace,
                                                          engine: FakeEngine) -> None:
    recipe = recipe_digest(workspace.root, workspace.matrix.bases["cuda"])
    locked = make_base(name="cuda", recipe=recipe, python="3.12.3", glibc="2.39")
    write_bases(lock_file(workspace), {CUDA_KEY: locked})
    engine.down = True
    with pytest.raises(NetworkError) as caught:
        bases.ensure(workspace, as_engine(engine), CUDA_KEY)
    assert "SPARKYARD_REGISTRY" in caught.value.next_step
    assert "base slim" in caught.value.next_step


def test_the_sources_of_a_locked_base_stand_in_their_order(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(archives.VARIABLE, "http://s.example/{archive}/{time}")
    lock(workspace, engine)
    assert making["sources"] == ["your Debian mirror"], "today's packages are on the mirror alone"
    bases.ensure(workspace, as_engine(engine), KEY)
    assert making["sources"] == ["your Debian mirror", f"the snapshot service at {TIME}",
                                 "the registry (127.0.0.1:5000/sparkyard)"]
    monkeypatch.delenv(archives.VARIABLE)
    engine.images.clear()
    engine.registry.clear()
    bases.ensure(workspace, as_engine(engine), KEY)
    assert len(making["sources"]) == 2, "the matrix names no service"


def test_todays_packages_that_are_the_locked_ones_change_nothing(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any]) -> None:
    first = bases.upgrade(workspace, as_engine(engine), KEY)
    text = lock_file(workspace).read_bytes()
    again = bases.upgrade(workspace, as_engine(engine), KEY)
    assert (again.origin, again.locked, making["made"]) == ("present", first.locked, 1)
    assert lock_file(workspace).read_bytes() == text
    engine.images.clear()
    engine.registry.clear()
    assert bases.upgrade(workspace, as_engine(engine), KEY).origin == "made"
    assert lock_file(workspace).read_bytes() == text


def test_a_lock_without_a_time_gets_one_where_its_packages_are_todays(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any]) -> None:
    locked = bases.upgrade(workspace, as_engine(engine), KEY).locked
    old = locked.model_copy(update={"snapshot": ""})
    write_bases(lock_file(workspace), {KEY: old})
    bases.upgrade(workspace, as_engine(engine), KEY)
    assert load_bases(lock_file(workspace))[KEY] == locked
    assert making["made"] == 1


def test_the_lock_is_written_when_the_registry_has_the_packages(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_words: object) -> bool:
        raise NetworkError("the registry refuses this user")

    monkeypatch.setattr(retained, "packages_kept", refuses)
    with pytest.raises(NetworkError):
        bases.upgrade(workspace, as_engine(engine), KEY)
    assert not lock_file(workspace).exists()


def test_a_base_that_was_made_is_used_where_its_packages_cannot_be_kept(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    locked = lock(workspace, engine)

    def refuses(*_words: object) -> bool:
        raise NetworkError("the registry refuses this user")

    monkeypatch.setattr(retained, "packages_kept", refuses)
    assert bases.ensure(workspace, as_engine(engine), KEY).locked == locked
    assert "are not kept: the registry refuses this user" in capsys.readouterr().err


def test_layers_that_are_not_the_locked_ones_are_refused_and_the_base_is_made(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any],
        capsys: pytest.CaptureFixture[str]) -> None:
    locked = lock(workspace, engine)
    engine.registry[image_tag(workspace.registry, locked)] = ("sha256:" + 64 * "e",)
    assert bases.ensure(workspace, as_engine(engine), KEY).origin == "made"
    assert "its layers are not the locked ones" in capsys.readouterr().err


def test_an_image_that_the_registry_lacks_by_its_configuration_is_not_pulled(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch) -> None:
    locked = lock(workspace, engine)
    engine.registry[image_tag(workspace.registry, locked)] = locked.diff_ids
    monkeypatch.setattr(retained, "image_digest", lambda *_words: None)
    assert bases.ensure(workspace, as_engine(engine), KEY).origin == "made"
    assert engine.asked == 1, "when it was locked; the engine's tag is not asked in its place"


def test_a_lock_without_a_time_says_that_no_snapshot_was_asked(
        workspace: Workspace, engine: FakeEngine, making: dict[str, Any],
        capsys: pytest.CaptureFixture[str]) -> None:
    locked = lock(workspace, engine)
    write_bases(lock_file(workspace), {KEY: locked.model_copy(update={"snapshot": ""})})
    making["gone"] = True
    ready = bases.ensure(workspace, as_engine(engine), KEY)
    said = capsys.readouterr().err
    assert "no snapshot was asked: the lock has no time" in said
    assert "cannot be published" in said
    assert "./nox -s base -- slim --upgrade" in said
    assert "\n" not in ready.locked.unlocked
