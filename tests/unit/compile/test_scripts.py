"""Scripts without their comments."""

from __future__ import annotations

from builder.compile.scripts import without_comments

CODE = """\
x = 1  # one
# a line

y = "# no comment"
"""


def test_comments_and_empty_lines_are_left_out() -> None:
    assert without_comments(CODE) == 'x = 1\ny = "# no comment"\n'
    assert without_comments(CODE.replace("one", "two")) == without_comments(CODE)


def test_a_change_of_code_is_seen() -> None:
    assert without_comments(CODE.replace("x = 1", "x = 2")) != without_comments(CODE)
