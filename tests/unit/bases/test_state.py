"""What bases are asked to hold, and where each stands against its lock."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from builder.bases.state import (
    CUDA_DOCKERFILE,
    CUDA_RECIPE,
    RECIPES,
    SLIM_RECIPE,
    BaseState,
    image_tag,
    load_cuda_recipe,
    load_slim_recipe,
    local_file,
    lock_file,
    read_bases,
    recipe_digest,
    select_keys,
)
from builder.errors import ConfigError, LockError, UsageError
from builder.locking.base_lock import LockedBase, load_bases, write_bases
from builder.locking.sums import SUMS
from builder.matrix.load import load_matrix
from builder.workspace import Workspace, open_workspace
from tests.unit.bases.test_provision import CUDA, MATRIX, SLIM
from tests.unit.locking.test_base_lock import make_base, make_deb

ROOT = Path(__file__).parents[3]
KEY, CUDA_KEY = ("slim", "linux/arm64"), ("cuda", "linux/arm64")
OTHER = "sha256:" + 64 * "d"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / RECIPES).mkdir(parents=True)
    (tmp_path / SLIM_RECIPE).write_text(SLIM)
    (tmp_path / CUDA_RECIPE).write_text(CUDA)
    (tmp_path / CUDA_DOCKERFILE).write_text("FROM x\n")
    (tmp_path / "matrix.toml").write_text(MATRIX)
    return Workspace(tmp_path, load_matrix(tmp_path / "matrix.toml"), (), tmp_path / "cache")


def lock(workspace: Workspace, **changes: object) -> LockedBase:
    base = make_base(recipe=load_slim_recipe(workspace.root).digest,
                     packages=(make_deb("gcc"),), **changes)
    write_bases(lock_file(workspace), {base.key: base})
    return base


def stand_in(workspace: Workspace, locked: LockedBase, instead_of: str) -> LockedBase:
    own = locked.model_copy(update={"unlocked": "gcc is gone", "instead_of": instead_of,
                                    "image_id": OTHER})
    write_bases(local_file(workspace), {own.key: own})
    return own


def test_the_committed_locks_answer_the_committed_recipes() -> None:
    """The digest of the slim recipe is a label of the image: it must not change by itself."""
    workspace = open_workspace(ROOT / "matrix.toml")
    for base in load_bases(lock_file(workspace)).values():
        assert recipe_digest(ROOT, workspace.matrix.bases[base.name]) == base.recipe


def test_locked(workspace: Workspace) -> None:
    locked = lock(workspace)
    bases = read_bases(workspace)
    assert bases.get(KEY) == locked
    assert bases.standings[KEY].state is BaseState.LOCKED


def test_a_lock_that_was_edited_by_hand_is_refused(workspace: Workspace) -> None:
    workspace.locks.mkdir()
    (workspace.locks / SUMS).write_text("")
    lock(workspace)
    assert read_bases(workspace).standings[KEY].state is BaseState.LOCKED
    path = lock_file(workspace)
    path.write_text(path.read_text().replace("epoch = 1", "epoch = 2"))
    with pytest.raises(LockError, match="the bases' lock was edited by hand") as caught:
        read_bases(workspace)
    assert "git checkout locks/bases.toml" in caught.value.next_step


def test_missing(workspace: Workspace) -> None:
    bases = read_bases(workspace)
    assert bases.get(KEY) is None
    assert bases.standings[KEY].state is BaseState.MISSING
    assert "NVIDIA" in bases.standings[CUDA_KEY].why


def test_this_machines_own_base_stands_in_for_the_committed_one(workspace: Workspace) -> None:
    locked = lock(workspace)
    own = stand_in(workspace, locked, locked.image_id)
    bases = read_bases(workspace)
    assert bases.get(KEY) == own
    assert bases.standings[KEY].state is BaseState.UNLOCKED
    assert bases.standings[KEY].why == "gcc is gone"


def test_a_renewed_lock_wins_over_this_machines_own(workspace: Workspace) -> None:
    locked = lock(workspace)
    stand_in(workspace, locked, "sha256:" + 64 * "e")
    bases = read_bases(workspace)
    assert bases.get(KEY) == locked
    assert bases.standings[KEY].state is BaseState.LOCKED


def test_a_changed_recipe_makes_the_lock_stale(workspace: Workspace) -> None:
    lock(workspace)
    (workspace.root / SLIM_RECIPE).write_text(SLIM.replace('"gcc"', '"gcc", "g++"'))
    standing = read_bases(workspace).standings[KEY]
    assert standing.state is BaseState.STALE
    assert "images/base/slim" in standing.why


def test_a_lock_of_another_python_than_the_matrix_says_is_stale(workspace: Workspace) -> None:
    lock(workspace, python="3.12.3")
    standing = read_bases(workspace).standings[KEY]
    assert standing.state is BaseState.STALE
    assert "3.12.3" in standing.why


def test_comments_in_a_recipe_change_nothing(workspace: Workspace) -> None:
    before = load_slim_recipe(workspace.root).digest
    (workspace.root / SLIM_RECIPE).write_text("# a comment\n" + SLIM)
    assert load_slim_recipe(workspace.root).digest == before


@pytest.mark.parametrize("change", ["source", "python", "packages", "env", "dockerfile"])
def test_everything_that_makes_the_cuda_base_makes_its_lock_stale(workspace: Workspace,
                                                                  change: str) -> None:
    base = workspace.matrix.bases["cuda"]
    before = recipe_digest(workspace.root, base)
    match change:
        case "source":
            base = base.model_copy(update={"source": "nvidia/cuda:13.1.0-devel-ubuntu24.04"})
        case "python":
            base = base.model_copy(update={"python": "3.13"})
        case "packages":
            (workspace.root / CUDA_RECIPE).write_text(CUDA.replace("]", ', "gcc"]', 1))
        case "env":
            (workspace.root / CUDA_RECIPE).write_text(CUDA.replace("/bin", "/sbin"))
        case _:
            (workspace.root / CUDA_DOCKERFILE).write_text("FROM y\n")
    assert recipe_digest(workspace.root, base) != before


def test_the_matrix_says_which_python_the_cuda_base_gets(workspace: Workspace) -> None:
    shutil.copy(ROOT / CUDA_RECIPE, workspace.root / CUDA_RECIPE)
    packages = load_cuda_recipe(workspace.root).packages_for("3.13")
    assert {"python3.13", "python3.13-dev", "gcc"} <= set(packages)
    assert not any("{" in name or "3.12" in name for name in packages)


def test_a_misspelt_key_of_a_recipe_is_named(workspace: Workspace) -> None:
    (workspace.root / SLIM_RECIPE).write_text(SLIM.replace("suite", "siute"))
    with pytest.raises(ConfigError) as caught:
        load_slim_recipe(workspace.root)
    assert any("suite" in problem.next_step for problem in caught.value.problems)


@pytest.mark.parametrize("name", ["-oAPT::Update::Pre-Invoke::=touch /x", "gcc; touch /x",
                                  "../x.deb", "gcc g++", "$(id)", "GCC", ""])
def test_what_is_no_package_name_never_reaches_apt_or_a_shell(workspace: Workspace, name: str
                                                              ) -> None:
    for recipe, text, load in ((SLIM_RECIPE, SLIM.replace("gcc", name), load_slim_recipe),
                               (CUDA_RECIPE, CUDA.replace("python{python}", name),
                                load_cuda_recipe)):
        (workspace.root / recipe).write_text(text)
        with pytest.raises(ConfigError) as caught:
            load(workspace.root)
        assert caught.value.problems[0].where == "packages.0"


def test_a_variable_cannot_bring_a_line_of_a_dockerfile_along(workspace: Workspace) -> None:
    (workspace.root / CUDA_RECIPE).write_text(CUDA.replace('"/bin"', '"/bin\\nRUN id"'))
    with pytest.raises(ConfigError, match="PATH"):
        load_cuda_recipe(workspace.root)


def test_bases_are_chosen_by_name_and_platform(workspace: Workspace) -> None:
    assert select_keys(workspace, [], ["linux/amd64"]) == [("slim", "linux/amd64")]
    assert len(select_keys(workspace, [], [])) == 3
    assert select_keys(workspace, ["cuda", "cuda"], []) == [CUDA_KEY]
    with pytest.raises(UsageError) as caught:
        select_keys(workspace, ["slin"], [])
    assert "slim" in caught.value.next_step


def test_a_platform_that_a_named_base_lacks_is_no_silent_nothing(workspace: Workspace) -> None:
    with pytest.raises(UsageError, match="cuda is not made for linux/amd64"):
        select_keys(workspace, ["cuda"], ["linux/amd64"])


def test_the_tag_says_processor_and_image() -> None:
    assert image_tag("r/x", make_base()) == f"r/x/base-slim:arm64-{12 * 'a'}"
