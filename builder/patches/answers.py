"""What the hosting service answers, as far as it is used: checked once, where it comes in.

The fields are those of GitHub's REST API (https://docs.github.com/rest). Texts that people wrote
upstream end up on a terminal, so what is not printable in them is taken out here.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from builder.matrix.patch import COMMIT


def _lines(text: Any) -> Any:
    """Return a text's lines with a space for each character that no terminal should get."""
    if not isinstance(text, str):
        return "" if text is None else text
    return "\n".join("".join(char if char.isprintable() else " " for char in line)
                     for line in text.splitlines())


def _line(text: Any) -> Any:
    found = _lines(text)
    return " ".join(found.split()) if isinstance(found, str) else found


Sha = Annotated[str, Field(pattern=COMMIT)]
Line = Annotated[str, BeforeValidator(_line)]
Lines = Annotated[str, BeforeValidator(_lines)]


class Answer(BaseModel):
    """Base of the answers: of what the service says, only the named fields are read."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Named(Answer):
    """Something that is a commit: a parent, an end of a pull request, a merge base."""

    sha: Sha


class Pull(Answer):
    """A pull request; once merged, ``merge_commit`` is what it became on its base branch."""

    state: Line
    head: Named
    base: Named
    title: Line = ""
    body: Lines = ""
    commits: int = 1
    merged_at: Line = ""
    merge_commit: Annotated[Sha | None, Field(alias="merge_commit_sha")] = None


class Written(Answer):
    """What a commit's author wrote, which a rebase keeps."""

    message: Lines = ""
    author: dict[str, Any] | None = None


class Commit(Named):
    """A commit with its parents, none for the first one of a repository."""

    parents: tuple[Named, ...]
    commit: Written = Written()


class Comparison(Answer):
    """How two commits lie to each other; ``status`` is that of the second one."""

    merge_base: Annotated[Named, Field(alias="merge_base_commit")]
    status: str


class Comment(Answer):
    """A comment on a pull request."""

    body: Lines = ""


class Release(Answer):
    """A release; a draft was not published yet."""

    tag_name: Line
    published_at: Line = ""
    prerelease: bool = False
