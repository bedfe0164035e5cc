"""Moving tags: forward to an image that passed, and back; two runs at once, and runs cut off.

A registry cannot compare and swap a tag. So a step is first written in the tag's log, under a name
that no other run can write over, then the log is read again, and only the run whose entry counts
moves the tag. What is moved to is proven before, every time: whichever run comes last, the tag
points at an image that passed. A run that was cut off between entry and tag is completed by the
next one.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from builder.errors import NetworkError, UsageError, VerdictError, command
from builder.promotion.evidence import Proof
from builder.promotion.log import (
    Action,
    Entry,
    Logged,
    State,
    append,
    chain,
    good_targets,
    read_state,
)
from builder.record.models import now
from builder.registry.repository import Repository

SETTLE_S = 1.0  # between an entry and the look at its rivals; longer than one request takes
REPAIRS = 5
UNVERIFIED = "-unverified"  # ends the tag that promises less than its cell's own


class LostError(VerdictError):
    """Another run moved the same tag at the same time, and its entry counts."""


@dataclass(frozen=True)
class Moved:
    """What a run did: ``entry`` is None where nothing was to be done.

    ``repaired`` says that an earlier run was cut off and its step was completed first.
    ``skipped`` are images that a rollback could not use, with the reason.
    """

    tag: str
    before: str
    after: str
    entry: Logged | None
    repaired: bool = False
    skipped: tuple[str, ...] = ()


def _settle() -> None:
    time.sleep(SETTLE_S)


def _run_id() -> str:
    return uuid.uuid4().hex[:12]


@dataclass(frozen=True)
class MovingTag:
    """One moving tag of a repository.

    ``prove`` returns the proof that an image passed what this tag needs, or raises VerdictError;
    ``unverified`` says that the tag promises less than its cell's own.
    """

    repository: Repository
    tag: str
    prove: Callable[[str], Proof]
    unverified: bool = False
    clock: Callable[[], str] = now
    settle: Callable[[], None] = _settle
    run_id: Callable[[], str] = field(default=_run_id)

    def state(self) -> State:
        """Read the tag and the newest entries of its log."""
        return read_state(self.repository, self.tag)

    def history(self) -> list[Logged]:
        """Return the log, oldest first; raises VerdictError where it is broken."""
        return [*chain(self.repository, self.state().head)][::-1]

    def was_left(self, target: str) -> bool:
        """Say whether the tag was rolled back from an image, and not promoted to it since."""
        entries = self.history()
        return (target in {one.entry.target for one in entries}
                and target not in good_targets(entries))

    def repair(self) -> bool:
        """Let the tag follow its log, and say whether it had to be moved.

        Raises VerdictError where the log's newest image is no longer proven.
        """
        for attempt in range(REPAIRS):
            state = self.state() if attempt else self._calm_state()
            if state.head is None or state.moving == state.head.entry.target:
                return attempt > 0
            self._point(self.prove(state.head.entry.target))
        raise NetworkError("the tag keeps being moved by something else",
                           where=f"{self.repository.name}:{self.tag}",
                           next_step="stop whatever pushes this tag, then run the same again")

    def promote(self, target: str, reason: str = "") -> Moved:
        """Move the tag to an image that is proven; raises LostError, VerdictError, NetworkError."""
        proof = self.prove(target)
        repaired = self._repair_if_possible()
        state = self._calm_state()
        if state.head and state.head.entry.target == target == state.moving:
            return Moved(self.tag, target, target, None, repaired)
        try:
            return self._step("promote", proof, state, reason, repaired=repaired)
        except LostError:
            now = self.state()
            if now.head is None or now.head.entry.target != target:
                raise
            self.repair()  # the other run promotes the same; this one waits for it
            return Moved(self.tag, state.moving, target, None, repaired)

    def rollback(self, to: str = "", reason: str = "") -> Moved:
        """Move the tag to the last good image before this one, or to one that it once was.

        Raises UsageError where the log has no such image, else as ``promote``.
        """
        state = self._calm_state()
        targets = good_targets([*chain(self.repository, state.head)][::-1])
        if to and to not in targets:
            raise UsageError("the tag never pointed at this image, or was moved back from it",
                             where=to, next_step=f"choose one of the log: "
                             f"{command('promote', self._cell, '--log')}")
        skipped: list[str] = []
        for target in [to] if to else _earlier(targets, state):
            try:
                proof = self.prove(target)
            except VerdictError as error:
                skipped.append(f"{target}: {error.what}")
                continue
            return self._step("rollback", proof, state, reason, skipped=skipped)
        raise UsageError("there is no earlier good image to go back to"
                         + "".join(f"\n  {line}" for line in skipped),
                         where=f"{self.repository.name}:{self.tag}",
                         next_step=f"promote a good one: {command('promote', self._cell)}")

    @property
    def _cell(self) -> str:
        return self.tag.removesuffix(UNVERIFIED)

    def _calm_state(self) -> State:
        """Read the state; where tag and log disagree, give the run that may be at it time to end.

        That run pauses once and moves the tag then; whatever still disagrees was cut off.
        """
        state = self.state()
        if state.head is None or state.moving == state.head.entry.target:
            return state
        for _ in range(2):
            self.settle()
        return self.state()

    def _repair_if_possible(self) -> bool:
        """Complete a run that was cut off; an image that is not proven any more stays as it is."""
        try:
            return self.repair()
        except VerdictError:
            return False

    def _step(self, action: Action, proof: Proof, state: State, reason: str, *,
              repaired: bool = False, skipped: Sequence[str] = ()) -> Moved:
        """Write the step down, see whether it counts, move the tag, and see again."""
        seen = self.state()
        if (seen.head, seen.moving) != (state.head, state.moving):
            raise self._lost(seen, "before this one wrote anything")
        mine = append(self.repository, self._entry(action, proof, seen, reason))
        self.settle()
        if not _leads(mine, now := self.state()):
            raise self._lost(now, self._standing(mine, now))
        self._point(proof)
        after = self.state()
        if not _leads(mine, after) or after.moving != proof.manifest.digest:
            self.repair()
            after = self.state()
            if not _leads(mine, after):
                raise self._lost(after, self._standing(mine, after))
        return Moved(self.tag, state.moving, proof.manifest.digest, mine, repaired, tuple(skipped))

    def _entry(self, action: Action, proof: Proof, state: State, reason: str) -> Entry:
        head = state.head
        return Entry(number=head.entry.number + 1 if head else 1,
                     previous=head.digest if head else "", action=action, tag=self.tag,
                     target=proof.manifest.digest, replaced=state.moving, records=proof.records,
                     unverified=self.unverified, reason=reason, time=self.clock(),
                     run=self.run_id())

    def _point(self, proof: Proof) -> None:
        self.repository.point(self.tag, proof.manifest)

    def _standing(self, mine: Logged, state: State) -> str:
        """Say what became of an entry of this run that is not the newest that counts."""
        for one in chain(self.repository, state.head):
            if one.digest == mine.digest:
                return f"right after entry {mine.entry.number}, which is this run's"
            if one.entry.number <= mine.entry.number:
                break
        return f"so that entry {mine.entry.number} of this run does not count"

    def _lost(self, state: State, clause: str) -> LostError:
        head = state.head.entry if state.head else None
        what = f"entry {head.number}: {head.action} to {head.target}" if head else "its tag"
        return LostError(f"another run moved {self.tag} at the same time, {clause}\n"
                         f"  the log's newest is {what}",
                         where=f"{self.repository.name}:{self.tag}",
                         next_step="look at what the tag is now, and run the same command again "
                         "if it is still wanted")


def _leads(mine: Logged, state: State) -> bool:
    return state.head is not None and state.head.digest == mine.digest


def _earlier(targets: Sequence[str], state: State) -> list[str]:
    """Return the images to try, newest first.

    A tag that was moved by hand, to what no entry names, goes back to the log's newest image.
    """
    by_hand = bool(state.moving) and state.moving not in targets
    newest = targets[0] if targets else ""
    rest = list(targets) if by_hand else list(targets[1:])
    return list(dict.fromkeys(one for one in rest if by_hand or one != newest))


