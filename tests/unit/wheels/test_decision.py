"""Published, rebuilt or whole from source: who decides, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cells_for_tests import CPU, make_cell
from compiled_extension import HEADER, code, make_recipe, make_sources
from patch_wheels import diff, locked, make_wheel

from builder.errors import ConfigError
from builder.locking.findings import Finding, FindingCode, Severity
from builder.matrix.cells import Cell
from builder.patches.status import Candidate
from builder.wheels.decision import Decision, Take, decide, targets_of
from builder.wheels.policy import policy_of
from builder.wheels.recipe import Recipe

ANSWER = diff("csrc/answer.c", code("_answer", 41), code("_answer", 42))
SHARED = diff("csrc/shared.h", HEADER, "#define ADDED 1\n")
ORPHAN = diff("csrc/alone.c", None, "int x;\n")


@pytest.fixture(name="recipe")
def made_recipe(tmp_path: Path) -> Recipe:
    return make_recipe(make_sources(tmp_path))


def cell(policy: object = None) -> Cell:
    return make_cell({**CPU, **({} if policy is None else {"wheels": {"spam": policy}})})


def asked(folder: Path, policy: object, recipe: Recipe | None, *diffs: bytes | None,
          findings: tuple[Finding, ...] = ()) -> Decision:
    wheel = locked(make_wheel(folder, {"spam/__init__.py": b""}, "spam"))
    series = [Candidate(f"owner/spam#{number}", str(number), data)
              for number, data in enumerate(diffs, 1)]
    return decide(cell(policy), wheel, recipe, series, findings)


def finding(**changed: Any) -> Finding:
    facts = {"code": FindingCode.NO_GPU_CODE, "what": "no code", "next_step": "compile it",
             "wheel": "spam-1.0-py3-none-any.whl", "file": "spam/_other.abi3.so", **changed}
    return Finding(**facts)


def test_a_package_is_published_unless_it_is_named(tmp_path: Path, recipe: Recipe) -> None:
    assert asked(tmp_path, None, None, ANSWER).take is Take.PUBLISHED
    assert asked(tmp_path, "published", recipe, ANSWER).take is Take.PUBLISHED
    assert policy_of(cell(["_answer"]), "spam") == ("_answer",)


def test_auto_follows_the_patches(tmp_path: Path, recipe: Recipe) -> None:
    found = asked(tmp_path, "auto", recipe, ANSWER)
    assert (found.take, found.targets) == (Take.REBUILD, ("_answer",))
    assert found.why == "owner/spam#1 touches csrc/answer.c"
    assert asked(tmp_path, "auto", recipe, SHARED).targets == ("_answer", "_other")
    quiet = asked(tmp_path, "auto", recipe, diff("spam/__init__.py", "", "#\n"), None)
    assert quiet.take is Take.PUBLISHED
    assert "owner/spam#2 is not available and was not looked at" in quiet.why


def test_auto_follows_the_gate(tmp_path: Path, recipe: Recipe) -> None:
    found = asked(tmp_path, "auto", recipe, findings=(finding(),))
    assert found.targets == ("_other",)
    assert found.why == "the gate found no-gpu-code in spam/_other.abi3.so"
    for other in (finding(severity=Severity.WARNING), finding(code=FindingCode.FILE_COLLISION),
                  finding(file="spam/x.so"), finding(wheel="other.whl")):
        assert asked(tmp_path, "auto", recipe, findings=(other,)).take is Take.PUBLISHED


def test_named_targets_and_what_a_patch_needs_beside_them(tmp_path: Path, recipe: Recipe) -> None:
    assert asked(tmp_path, ["_answer"], recipe, ANSWER).targets == ("_answer",)
    with pytest.raises(ConfigError, match="_other has to be compiled too"):
        asked(tmp_path, ["_answer"], recipe, SHARED)


def test_files_of_no_target_ask_for_the_whole(tmp_path: Path, recipe: Recipe) -> None:
    with pytest.raises(ConfigError, match="no target compiles"):
        asked(tmp_path, "auto", recipe, ORPHAN)
    whole = recipe.model_copy(update={"whole": recipe.targets["_answer"].cost})
    assert asked(tmp_path, "auto", whole, ORPHAN).take is Take.SOURCE
    assert asked(tmp_path, "source", whole).take is Take.SOURCE


def test_everything_that_no_recipe_can_do_at_once(tmp_path: Path, recipe: Recipe) -> None:
    with pytest.raises(ConfigError, match=r"there is no wheels/spam\.toml"):
        asked(tmp_path, "auto", None)
    with pytest.raises(ConfigError) as raised:
        asked(tmp_path, ["_x", "_y"], recipe.model_copy(update={
            "gpu": "sm_121", "sources": {"2.0": recipe.sources["1.0"]}}))
    assert [problem.what for problem in raised.value.problems] == [
        'there is no target "_x"', 'there is no target "_y"',
        "its recipe is for sm_121, the image for no GPU",
        "wheels/spam.toml has no sources of 1.0"]
    with pytest.raises(ConfigError, match="targets only"):
        asked(tmp_path, "source", recipe)


def test_one_word_stands_alone() -> None:
    with pytest.raises(ConfigError, match="go together"):
        cell(["auto", "_answer"])


def test_targets_by_source_file(recipe: Recipe) -> None:
    assert targets_of(recipe, "csrc/shared.h") == ("_answer", "_other")
    assert targets_of(recipe, "README.md") == ()
