"""The log of a moving tag: entries in the registry, each naming the one before it by digest.

An entry is a manifest without content, put under a tag that holds its number and its own digest:
``cpu-log-000003-1f2e…``. So an entry is never written over, not even by another run that takes the
same number at the same moment. Then several have that number; which of them counts follows from
what the registry holds, by one rule for every reader (``State.head``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from builder import labels as label
from builder.errors import VerdictError
from builder.model import Frozen
from builder.registry.repository import Manifest, Repository, note_manifest

LOG_TYPE = "application/vnd.sparkyard.log.v1+json"
ENTRY_NOTE = f"{label.PREFIX}log.entry"
SHORT = 12  # hexadecimal digits of an entry's digest in its tag
_TAG = re.compile(r"(.+)-log-([0-9]{6,12})-([0-9a-f]{12})")
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Action = Literal["promote", "rollback"]


class Entry(Frozen):
    """One step of a moving tag: to which image, from which, and the records that prove it.

    ``previous`` is the digest of the entry before it, empty for the first. ``time`` is for
    readers: the order is that of the numbers. ``run`` tells two runs apart that do the same.
    """

    log_version: Literal[1] = 1
    number: Annotated[int, Field(ge=1)]
    previous: Digest | Literal[""]
    action: Action
    tag: str
    target: Digest
    replaced: Digest | Literal[""]
    records: tuple[Digest, ...]
    unverified: bool = False
    reason: str = ""
    time: str
    run: str


@dataclass(frozen=True)
class Logged:
    """An entry and the digest of its manifest."""

    digest: str
    entry: Entry


@dataclass(frozen=True)
class State:
    """What the registry says at one moment: the tag's digest, and the entries of highest number."""

    moving: str
    newest: tuple[Logged, ...]

    @property
    def head(self) -> Logged | None:
        """Return the entry that counts: of several, the one that the tag follows already.

        Where it follows none of them, the one with the smallest digest.
        """
        followed = [one for one in self.newest if one.entry.target == self.moving]
        return min(followed or self.newest, key=lambda one: one.digest, default=None)


def entry_tag(tag: str, number: int, digest: str) -> str:
    """Return the tag of an entry."""
    return f"{tag}-log-{number:06d}-{digest.removeprefix('sha256:')[:SHORT]}"


def is_log_tag(name: str) -> bool:
    """Say whether a tag is that of an entry of a log."""
    return _TAG.fullmatch(name) is not None


def logged_tags(names: Iterable[str]) -> set[str]:
    """Return the moving tags that have a log among these tags of a repository."""
    return {parts[1] for name in names if (parts := _TAG.fullmatch(name))}


def append(repository: Repository, entry: Entry) -> Logged:
    """Put an entry under a tag of its own, and return it."""
    digest = note_manifest(LOG_TYPE, _notes(entry)).digest
    return Logged(repository.note(entry_tag(entry.tag, entry.number, digest), LOG_TYPE,
                                  _notes(entry)), entry)


def read_state(repository: Repository, tag: str) -> State:
    """Read the newest entries of a tag's log, and where the tag points.

    A tag that the registry cannot read counts as not there: its disk was full while it was written,
    so the run that wrote it had failed, and the next one writes again.
    """
    named = _numbered(repository.tags(), tag)
    newest: tuple[Logged, ...] = ()
    for number in sorted(named, reverse=True):
        newest = tuple(one for name in named[number]
                       if (one := read_entry(repository, name)) is not None)
        if newest:
            break
    pointed = repository.replaceable(tag)
    return State(pointed.digest if pointed else "", newest)


def read_entry(repository: Repository, name: str) -> Logged | None:
    """Return the entry under a tag; None where what lies there is not that entry."""
    parts, manifest = _TAG.fullmatch(name), repository.replaceable(name)
    if parts is None or manifest is None:
        return None
    entry = _entry(manifest)
    if entry is None or entry_tag(entry.tag, entry.number, manifest.digest) != name:
        return None
    return Logged(manifest.digest, entry)


def chain(repository: Repository, head: Logged | None) -> Iterator[Logged]:
    """Yield the log from its newest entry to its first; raises VerdictError where it is broken."""
    while head is not None:
        yield head
        previous, number = head.entry.previous, head.entry.number
        if not previous:
            if number != 1:
                raise _broken(head, "it names no entry before it")
            return
        manifest = repository.manifest(previous)
        entry = _entry(manifest) if manifest else None
        if manifest is None or entry is None:
            raise _broken(head, "the entry before it is gone")
        if (entry.number, entry.tag) != (number - 1, head.entry.tag):
            raise _broken(head, "the entry before it is of another number or tag")
        head = Logged(manifest.digest, entry)


def aside(repository: Repository, tag: str, counted: Sequence[Logged]) -> list[str]:
    """Return the tags of entries that do not count: runs that lost, and what is damaged."""
    known = {entry_tag(tag, one.entry.number, one.digest) for one in counted}
    return sorted(name for names in _numbered(repository.tags(), tag).values() for name in names
                  if name not in known)


def good_targets(entries: Sequence[Logged]) -> list[str]:
    """Return the images that the tag pointed at and was not moved back from, newest first.

    ``entries`` are a whole log, oldest first.
    """
    stack: list[str] = []
    for entry in (one.entry for one in entries):
        if entry.action == "rollback" and entry.target in stack:
            while stack[-1] != entry.target:
                stack.pop()
        else:
            stack.append(entry.target)
    return stack[::-1]


def _numbered(tags: Sequence[str], tag: str) -> dict[int, list[str]]:
    named: dict[int, list[str]] = {}
    for name in sorted(tags):
        parts = _TAG.fullmatch(name)
        if parts and parts[1] == tag:
            named.setdefault(int(parts[2]), []).append(name)
    return named


def _entry(manifest: Manifest) -> Entry | None:
    value = manifest.value
    notes = value.get("annotations")
    if value.get("artifactType") != LOG_TYPE or not isinstance(notes, dict):
        return None
    try:
        return Entry.model_validate_json(str(notes.get(ENTRY_NOTE)))
    except ValidationError:
        return None


def _notes(entry: Entry) -> dict[str, str]:
    return {ENTRY_NOTE: json.dumps(entry.model_dump(mode="json"), sort_keys=True,
                                   separators=(",", ":"))}


def _broken(at: Logged, why: str) -> VerdictError:
    return VerdictError(f"the log of {at.entry.tag} is broken at entry {at.entry.number}: {why}",
                        where=at.digest, next_step="restore the registry's own data from a copy")
