"""What the hosting service answers: read where it has the API's form, refused where it has not."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from builder.patches.answers import Comment, Commit, Comparison, Pull, Release

SHA = "a" * 40
PULL = {"state": "open", "head": {"sha": SHA}, "base": {"sha": SHA}, "extra": 1}


def test_unknown_fields_are_ignored_and_missing_ones_have_defaults() -> None:
    pull = Pull.model_validate(PULL)
    assert (pull.head.sha, pull.title, pull.commits, pull.merge_commit) == (SHA, "", 1, None)
    assert Pull.model_validate({**PULL, "merge_commit_sha": SHA, "title": None}).merge_commit == SHA


@pytest.mark.parametrize("change", [
    {"head": None}, {"head": {"sha": "HEAD"}}, {"head": {"sha": SHA + "a"}}, {"state": 1},
    {"merge_commit_sha": "../../x"}, {"commits": "many"}])
def test_what_is_not_of_the_api_s_form_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Pull.model_validate({**PULL, **change})


def test_texts_of_people_keep_their_lines_and_lose_control_characters() -> None:
    assert Pull.model_validate({**PULL, "title": "a\x1b[2J\nb"}).title == "a [2J b"
    assert Comment.model_validate({"body": "one\r\ntwo\x07"}).body == "one\ntwo "
    assert Comment.model_validate({"body": None}).body == ""


def test_a_commit_may_have_no_parent() -> None:
    assert Commit.model_validate({"sha": SHA, "parents": []}).parents == ()
    with pytest.raises(ValidationError):
        Commit.model_validate({"sha": SHA})


def test_names_of_the_api_are_ours_where_they_are_clearer() -> None:
    body = {"merge_base_commit": {"sha": SHA}, "status": "ahead"}
    assert Comparison.model_validate(body).merge_base.sha == SHA
    assert not Release.model_validate({"tag_name": "v1"}).prerelease
