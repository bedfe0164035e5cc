"""The cuda base: what the engine is told to build, and what is locked of the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from builder.bases.cuda import definition, dockerfile, make_cuda
from builder.bases.state import CUDA_DOCKERFILE, RECIPES, CudaRecipe, cuda_dockerfile
from builder.engine.client import Engine, ImageFacts, RunSpec
from builder.errors import EngineError, LockError, NetworkError
from builder.matrix.models import Base
from builder.process import Result

ROOT = Path(__file__).parents[3]
KEY = ("cuda", "linux/arm64")
IMAGE = "sha256:" + 64 * "a"
BASE = Base(flavour="cuda", source="r.example/cuda:13", python="3.13", glibc="2.41",
            platforms=("linux/arm64",))
RECIPE = CudaRecipe(packages=("python{python}-dev", "gcc"), env={"PATH": "/a:/b", "X": 'say "x"'})


class FakeEngine:
    """An engine that builds anything; ``says`` are the answers of programs in the image."""

    def __init__(self, **says: str) -> None:
        self.says = {"dpkg-query": "libc6\t2.41-12\tarm64\ngcc\t4:14\tarm64\n",
                     "python3.13": "Python 3.13.5\n", **says}
        self.baked: list[dict[str, Any]] = []
        self.ran: list[RunSpec] = []
        self.refuses: Exception | None = None
        self.image: ImageFacts | None = ImageFacts(IMAGE, (IMAGE,), {}, (), (), 1, KEY[1], "", {})

    def bake(self, wanted: dict[str, Any], targets: tuple[str, ...]) -> None:
        self.baked.append(wanted["target"][targets[0]])
        if self.refuses:
            raise self.refuses

    def inspect(self, _reference: str) -> ImageFacts | None:
        return self.image

    def run_once(self, spec: RunSpec, *, timeout: float) -> Result:
        self.ran.append(spec)
        said = self.says[spec.command[0]]
        return Result(spec.command, 0 if said else 127, said, "" if said else "not found")


def make(engine: FakeEngine) -> Any:
    return make_cuda(cast(Engine, engine), ROOT, BASE, KEY, "r/x")


def test_packages_and_variables_come_from_the_recipe() -> None:
    text = dockerfile(RECIPE, cuda_dockerfile(ROOT), "3.13")
    assert "install -y --no-install-recommends python3.13-dev gcc;" in text
    assert 'ENV PATH="/a:/b"\nENV X="say \\"x\\""\n' in text
    assert "@" not in text


def test_the_dockerfile_itself_fixes_no_version_and_no_package() -> None:
    text = (ROOT / CUDA_DOCKERFILE).read_text()
    assert not any(word in text for word in ("python3", "gcc", "13.", "24.04"))


def test_the_source_and_this_machines_proxy_are_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    target = definition(RECIPE, "FROM x", BASE, KEY, "r/x:y", ROOT / RECIPES)["target"]["cuda"]
    assert target["args"]["SOURCE"] == BASE.source
    assert target["args"]["https_proxy"] == "http://proxy.example:3128"
    assert (target["platforms"], target["tags"]) == (["linux/arm64"], ["r/x:y"])


def test_bake_leaves_the_variables_of_a_dockerfile_alone() -> None:
    target = definition(RECIPE, "FROM ${SOURCE}", BASE, KEY, "r/x:y", ROOT)["target"]["cuda"]
    assert target["dockerfile-inline"] == "FROM $${SOURCE}"


def test_what_came_out_is_what_is_locked() -> None:
    engine = FakeEngine()
    locked = make(engine)
    assert (locked.image_id, locked.diff_ids) == (IMAGE, (IMAGE,))
    assert (locked.python, locked.glibc, locked.source) == ("3.13.5", "2.41", BASE.source)
    assert [(deb.name, deb.version) for deb in locked.packages] == [
        ("libc6", "2.41-12"), ("gcc", "4:14")]


def test_nvidias_entry_point_is_passed_by() -> None:
    """It prints a banner on standard output, in which no package can be read."""
    engine = FakeEngine()
    make(engine)
    assert [spec.entrypoint for spec in engine.ran] == ["", ""]


def test_lines_that_are_no_packages_are_passed_by() -> None:
    engine = FakeEngine(**{"dpkg-query": "warning: no\nlibc6\t2.41-12\tarm64\n\ngone\t\tarm64\n"})
    assert [deb.name for deb in make(engine).packages] == ["libc6"]


def test_a_registry_out_of_reach_names_the_source_and_another_way() -> None:
    engine = FakeEngine()
    engine.refuses = NetworkError("no route to host")
    with pytest.raises(NetworkError, match=r"r\.example/cuda:13 cannot be pulled: no route"
                       ) as caught:
        make(engine)
    assert caught.value.where == "bases.cuda.source"
    assert "base slim" in caught.value.next_step


def test_an_image_without_the_python_of_the_matrix_is_refused() -> None:
    with pytest.raises(LockError, match=r"python3\.13 does not run in the base.*not found"):
        make(FakeEngine(**{"python3.13": ""}))


def test_an_image_that_is_not_there_after_all() -> None:
    engine = FakeEngine()
    engine.image = None
    with pytest.raises(EngineError, match="does not have it"):
        make(engine)
