"""What became of declared patches upstream, and which matrix entries are no longer needed.

A pull request is merged (in which release?), closed (in favour of which other?), or still open.
Releases made from branches carry cherry-picked commits under other names, so "first in" is the
first release whose history has the merge commit; the wheel itself, where it is here, knows better.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.version import Version

from builder.config_file import dotted
from builder.indexes.http import SourceError
from builder.matrix.patch import Kind, Patch
from builder.model import Frozen
from builder.patches.answers import Pull
from builder.patches.status import Standing
from builder.patches.upstream import Hosting

RELEASES_ASKED = 12  # after the merge; one question each
NOT_NEEDED = frozenset({Standing.UPSTREAM, Standing.SUPERSEDED})
_SUPERSEDED = re.compile(r"(?:(?:superseded|replaced) by|favou?r of|duplicate of)[^\n#]{0,60}?"
                         r"(?:#|/pull/)(?P<number>\d+)", re.IGNORECASE)


class Drift(Frozen):
    """One patch upstream: its state in a word (``merged``), and the rest in a few."""

    name: str
    source: str
    state: str
    detail: str = ""


@dataclass(frozen=True)
class Seen:
    """What a patch is to one cell: the version of its wheel, and the standing, None if unknown."""

    cell: str
    version: str
    standing: Standing | None


def drift(name: str, patch: Patch, hosting: Hosting) -> Drift:
    """Ask what became of a patch; one that cannot be asked for says why."""
    if patch.kind is not Kind.PULL:
        return Drift(name=name, source=patch.id, state="fixed",
                     detail="it names commits, or is a file of the checkout")
    assert patch.repository is not None
    assert patch.pull is not None
    try:
        pull = hosting.pull(patch.repository, patch.pull)
        state, detail = _state(patch.repository, patch.pull, pull, hosting)
    except SourceError as failure:
        state, detail = "unreachable", failure.reason
    return Drift(name=name, source=patch.id, state=state, detail=detail)


def _state(repository: str, number: int, pull: Pull, hosting: Hosting) -> tuple[str, str]:
    if pull.merged_at:
        release = first_release(repository, pull.merge_commit or "", pull.merged_at, hosting)
        return "merged", f"{pull.merged_at[:10]}, " + (f"first in {release}" if release else
                                                       "in no release yet")
    if pull.state == "closed":
        texts = [pull.body, *(one.body for one in hosting.comments(repository, number))]
        other = successor(texts, number)
        return "closed", f"superseded by #{other}" if other else "no reason given"
    return "open", pull.title


def first_release(repository: str, commit: str, merged: str, hosting: Hosting) -> str:
    """Return the first release after the merge whose history has the commit, or nothing."""
    later = [tag for moment, tag in hosting.releases(repository) if moment >= merged]
    return next((tag for tag in later[:RELEASES_ASKED]
                 if hosting.contains(repository, tag, commit)), "")


def successor(texts: list[str], own: int) -> str:
    """Return the number that the last of the texts names as what took a pull request's place."""
    found = [match["number"] for text in texts for match in _SUPERSEDED.finditer(text)]
    return next((number for number in reversed(found) if int(number) != own), "")


def proposals(patches: Mapping[str, Patch], seen: Mapping[str, list[Seen]]) -> Iterator[str]:
    """Yield the edits of the matrix that what was seen speaks for, a line each."""
    for name, patch in patches.items():
        spare = [one for one in seen.get(name, ()) if one.standing in NOT_NEEDED]
        if not spare:
            continue
        need = [one for one in seen[name] if one.standing not in NOT_NEEDED]
        why = ", ".join(f"{one.cell} {one.version}: {one.standing}" for one in spare)
        yield f"{_edit(name, patch, need, spare)}  # {why}"


def _edit(name: str, patch: Patch, need: list[Seen], spare: list[Seen]) -> str:
    entry = f"[{dotted(('patches', name))}]"
    if not need:
        return f"delete {entry}"
    first = min(Version(one.version) for one in spare)
    if all(Version(one.version) < first for one in need):
        present = "" if patch.versions == "*" else f"{patch.versions},"
        return f'{entry} versions = "{present}<{first.public}"'
    return f"{entry} name the versions or images that need it"
