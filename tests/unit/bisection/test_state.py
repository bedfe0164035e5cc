"""What was judged is on disk after each version, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder.bisection.search import Verdict
from builder.bisection.state import Bisection, Question, Step, load, newest, save, state_path
from builder.errors import UsageError

QUESTION = Question(recipe="tiny", recipe_digest="sha256:a", cell="cpu", intent="i", level="2",
                    good="1", bad="4")
FOUND = Bisection(question=QUESTION, versions=("1", "2", "3", "4"))


def test_a_search_comes_back_as_it_was_left(tmp_path: Path) -> None:
    assert load(tmp_path, QUESTION) is None
    left = FOUND.with_step(Step(version="2", verdict=Verdict.GOOD, record="records/a.json"))
    save(tmp_path, left)
    assert load(tmp_path, QUESTION) == left.model_copy(update={"turn": 1})
    assert left.search.next_version == "3"
    assert left.step("2") == left.steps[0]
    assert left.step("3") is None


@pytest.mark.parametrize("changed", [{"recipe_digest": "sha256:b"}, {"good": "2"}, {"cell": "x"},
                                     {"level": "1b"}, {"intent": "j"}, {"nightlies": True}])
def test_another_question_is_another_search(tmp_path: Path, changed: dict[str, object]) -> None:
    save(tmp_path, FOUND)
    assert load(tmp_path, QUESTION.model_copy(update=changed)) is None


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    save(tmp_path, FOUND).write_text("{")
    with pytest.raises(UsageError, match="damaged") as error:
        load(tmp_path, QUESTION)
    assert "--restart" in error.value.next_step


def test_a_state_without_versions_or_of_another_question_is_damaged(tmp_path: Path) -> None:
    other = FOUND.model_copy(update={"question": QUESTION.model_copy(update={"good": "2"})})
    for state in (FOUND.model_copy(update={"versions": ()}), other):
        state_path(tmp_path, QUESTION).parent.mkdir(exist_ok=True)
        state_path(tmp_path, QUESTION).write_text(state.model_dump_json())
        with pytest.raises(UsageError, match="damaged"):
            load(tmp_path, QUESTION)


def test_the_newest_finished_search_of_a_recipe_is_found(tmp_path: Path) -> None:
    assert newest(tmp_path, "tiny") is None
    save(tmp_path, FOUND)
    assert newest(tmp_path, "tiny") is None  # not finished
    done = FOUND.with_step(Step(version="2", verdict=Verdict.BAD))
    other = done.model_copy(update={"question": QUESTION.model_copy(update={"good": "0"})})
    for written, found in ((1_000_000, other), (900_000, done)):  # a clock that was set back
        path = save(tmp_path, found)
        os.utime(path, (written, written))
    foreign = done.model_copy(update={"question": QUESTION.model_copy(
        update={"recipe": "tiny-other"})})
    save(tmp_path, foreign)
    named = newest(tmp_path, "tiny")
    assert named is not None
    assert (named.question, named.steps) == (done.question, done.steps)
    again = save(tmp_path, other)
    os.utime(again, (1, 1))
    named = newest(tmp_path, "tiny")
    assert named is not None
    assert named.question == other.question
    assert state_path(tmp_path, QUESTION).name.startswith("tiny-cpu-")
