"""Moving tags: one step, two at once, runs cut off; the tag never points at what did not pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.errors import NetworkError, UsageError, VerdictError
from builder.matrix.promotion import Promotion
from builder.promotion.evidence import RECORD_TYPE, Proof, attach_record, gather, prove
from builder.promotion.log import append, chain, good_targets, is_log_tag, read_state
from builder.promotion.moving import LostError, Moved, MovingTag
from builder.record.check import Status
from builder.registry.repository import Manifest, Repository
from tests.unit.fake_repository import (
    KilledError,
    Memory,
    Run,
    Stage,
    of_image,
    put_image,
    repository,
)
from tests.unit.record.test_models import a_record

POLICY = Promotion(level="2", hardware=("cpu",))
GOOD, BAD = ("a", "b", "c"), ("none", "forged", "other", "failed")


@dataclass
class World:
    """A registry with three good images and four that did not pass, in four ways."""

    memory: Memory = field(default_factory=Memory)
    images: dict[str, Manifest] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    entries: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> set[str]:
        return {self.images[name].digest for name in GOOD}

    def see(self, tag: str, digest: str) -> None:
        """Note every tag that points at what did not pass, and every entry written over."""
        if tag == "cpu" and digest not in self.passed:
            self.wrong.append(f"{tag} -> {digest}")
        if is_log_tag(tag) and self.entries.setdefault(tag, digest) != digest:
            self.wrong.append(f"{tag} was written over")


def a_world() -> World:
    world = World()
    world.images = {name: put_image(world.memory, name) for name in (*GOOD, *BAD)}
    there = repository(world.memory)
    for name in GOOD:
        attach_record(there, world.images[name], of_image(a_record(), world.images[name]))
    failed = world.images["failed"]
    for status in (Status.FAIL, Status.PASS):
        attach_record(there, failed, of_image(a_record(status), failed))
    text = world.memory.blobs[next(
        layer["digest"] for artifact in there.referrers(world.images["a"].digest)
        for layer in there.manifest(artifact.digest).value["layers"])]  # type: ignore[union-attr]
    there.attach(world.images["other"], RECORD_TYPE, text, {}, "record.json")
    forged = text.replace(world.images["a"].config.encode(), world.images["forged"].config.encode())
    there.attach(world.images["forged"], RECORD_TYPE, forged, {}, "record.json")
    world.memory.on_tag = world.see
    return world


def tag_of(there: Repository, **changes: Any) -> MovingTag:
    def proof(digest: str) -> Proof:
        return prove(gather(there, digest), "cpu", POLICY, POLICY)
    return MovingTag(there, "cpu", proof, **{
        "settle": lambda: None, "run_id": lambda: "alone", **changes})


@pytest.fixture
def world() -> World:
    return a_world()


def pointed(world: World) -> str:
    digest = world.memory.tags.get("cpu", "")
    return next((name for name, one in world.images.items() if one.digest == digest), digest)


def moved(world: World, *names: str) -> MovingTag:
    tag = tag_of(repository(world.memory))
    for name in names:
        tag.promote(world.images[name].digest)
    return tag


def test_a_promotion_is_logged_and_the_second_is_none(world: World) -> None:
    tag = moved(world, "a")
    again = tag.promote(world.images["a"].digest)
    assert (pointed(world), again.entry, len(tag.history())) == ("a", None, 1)
    entry = tag.history()[0].entry
    assert (entry.number, entry.previous, entry.action, entry.replaced) == (1, "", "promote", "")
    assert entry.records


@pytest.mark.parametrize("name", BAD)
def test_what_did_not_pass_is_never_promoted(world: World, name: str) -> None:
    tag = moved(world, "a")
    with pytest.raises(VerdictError, match="has not shown what its tag needs"):
        tag.promote(world.images[name].digest)
    assert (pointed(world), len(tag.history())) == ("a", 1)


def test_a_rollback_goes_back_step_by_step_and_over_what_was_left(world: World) -> None:
    tag = moved(world, "a", "b")
    assert tag.rollback().after == world.images["a"].digest
    tag.promote(world.images["c"].digest)
    assert (tag.rollback(reason="c is slow").after, pointed(world)) == (
        world.images["a"].digest, "a")
    assert [one.entry.action for one in tag.history()] == [
        "promote", "promote", "rollback", "promote", "rollback"]
    with pytest.raises(UsageError, match="no earlier good image"):
        tag.rollback()


def test_an_image_that_was_rolled_back_from_is_known_until_it_is_promoted_again(
        world: World) -> None:
    tag = moved(world, "a", "b")
    a, b = (world.images[name].digest for name in "ab")
    assert not tag.was_left(b)
    tag.rollback()
    assert (tag.was_left(b), tag.was_left(a), tag.was_left(world.images["c"].digest)) == (
        True, False, False)
    tag.promote(b)
    assert not tag.was_left(b)


def test_a_rollback_to_a_named_image_of_the_log(world: World) -> None:
    tag = moved(world, "a", "b", "c")
    with pytest.raises(UsageError, match="never pointed at this image"):
        tag.rollback(world.images["none"].digest)
    tag.rollback(world.images["a"].digest)
    assert pointed(world) == "a"


def test_a_rollback_leaves_out_an_image_whose_record_is_gone(world: World) -> None:
    tag = moved(world, "a", "b", "c")
    image = world.images["b"]
    attach_record(repository(world.memory), image, of_image(a_record(Status.FAIL), image))
    done = tag.rollback()
    assert pointed(world) == "a"
    assert [line.partition(":")[0] for line in done.skipped] == ["sha256"]


def test_a_tag_moved_by_hand_goes_back_to_the_newest_of_the_log(world: World) -> None:
    tag = moved(world, "a", "b")
    world.memory.tags["cpu"] = world.images["none"].digest
    tag.rollback()
    assert pointed(world) == "b"
    world.memory.tags["cpu"] = world.images["none"].digest
    assert tag.promote(world.images["c"].digest).repaired
    assert pointed(world) == "c"


def test_an_entry_written_by_hand_moves_nothing_to_what_did_not_pass(world: World) -> None:
    tag = moved(world, "a", "b")
    head = tag.state().head
    assert head is not None
    append(repository(world.memory), head.entry.model_copy(update={
        "number": 3, "previous": head.digest, "target": world.images["none"].digest}))
    with pytest.raises(VerdictError, match="no passing record"):
        tag.repair()
    assert pointed(world) == "b"
    tag.promote(world.images["c"].digest)
    assert pointed(world) == "c"
    assert tag.rollback().skipped
    assert (pointed(world), world.wrong) == ("b", [])


@pytest.mark.parametrize("after", [False, True])
def test_a_promotion_killed_at_any_request_is_completed_or_undone_by_the_next(
        after: bool) -> None:
    for request in range(60):
        world = a_world()
        moved(world, "a")
        run = Run("p", lambda _run: None, dies_at=request, dies_after=after)
        stage = Stage([run], iter(()))
        run.work = acting(world, stage, ("promote", "b"))
        stage.play()
        assert pointed(world) in ("a", "b")
        fresh = tag_of(repository(world.memory))
        fresh.repair()
        assert pointed(world) == ("a" if len(fresh.history()) == 1 else "b")
        assert world.wrong == []
        if run.error is None:
            assert isinstance(run.result, Moved)
            return
    pytest.fail("the run never ended")


@pytest.mark.parametrize("action", ["promote", "rollback"])
def test_a_tag_that_a_full_disk_left_empty_stops_nothing_that_comes_after(action: str) -> None:
    """Each put of a tag in turn; what the registry cannot read is written again or left out."""
    for number in range(2):  # the entry's tag and the moving one
        world = a_world()
        tag = moved(world, "a", "b")
        world.memory.spoils = number
        with pytest.raises(NetworkError, match="it answered 500"):
            tag.rollback() if action == "rollback" else tag.promote(world.images["c"].digest)
        after = tag_of(repository(world.memory))
        after.promote(world.images["a"].digest)
        assert pointed(world) == "a"
        after.promote(world.images["c"].digest)
        assert {name for name in world.memory.damaged if not is_log_tag(name)} == set()
        assert after.rollback().after in world.passed
        check_end(world, [])


def acting(world: World, stage: Stage, action: tuple[str, str],
           clock: str = "2026-01-01T00:00:00Z") -> Callable[[Run], Any]:
    """Return a run's work: one action, each request on the stage."""
    def work(run: Run) -> Any:
        there = repository(world.memory, before=lambda: stage.before(run),
                           after=lambda: stage.after(run))
        tag = tag_of(there, settle=lambda: stage.settle(run), clock=lambda: clock,
                     run_id=lambda: run.name)
        verb, name = action
        return (tag.promote(world.images[name].digest) if verb == "promote"
                else tag.rollback() if verb == "rollback" else tag.repair())
    return work


ACTIONS = st.one_of(
    st.tuples(st.just("promote"), st.sampled_from([*GOOD, *BAD])),
    st.tuples(st.sampled_from(["rollback", "repair"]), st.just("")))
CLOCKS = st.sampled_from(["2026-01-02T00:00:00Z", "2019-01-01T00:00:00Z", "2031-01-01T00:00:00Z"])
RUNS = st.lists(st.tuples(ACTIONS, CLOCKS, st.integers(-60, 60), st.booleans(),
                          st.booleans()),
                min_size=2, max_size=3)
CHOICES = st.lists(st.integers(0, 2), max_size=150)


def play(world: World, runs: list[Any], choices: Iterator[int], slowest: int | None
         ) -> list[Run]:
    there = [Run(f"run{number}", lambda _run: None, dies_at=dies, dies_after=after, lost=lost)
             for number, (_, _, dies, after, lost) in enumerate(runs)]
    stage = Stage(there, choices, slowest)
    for run, (action, clock, *_) in zip(there, runs, strict=True):
        run.work = acting(world, stage, action, clock)
    stage.play()
    return there


def check_end(world: World, runs: list[Run]) -> None:
    """Check that the tag passed, that the log is whole, and that one more run makes them agree."""
    assert world.wrong == []
    for run in runs:
        if run.error and not isinstance(run.error, KilledError | VerdictError | UsageError
                                        | NetworkError):
            raise run.error
    tag = tag_of(repository(world.memory))
    tag.repair()
    state = tag.state()
    assert state.moving in world.passed
    assert state.head is not None
    assert state.head.entry.target == state.moving
    history = tag.history()
    assert [one.entry.number for one in history] == [*range(1, len(history) + 1)]
    assert set(good_targets(history)) <= world.passed
    assert set(world.entries.items()) <= set(world.memory.tags.items())


@settings(max_examples=400)
@given(before=st.lists(st.sampled_from(GOOD), min_size=1, max_size=3), runs=RUNS, choices=CHOICES)
def test_no_interleaving_points_the_tag_at_what_did_not_pass(
        before: list[str], runs: list[Any], choices: list[int]) -> None:
    """Any delay of any request, kills, a lost registry, forged records, wrong clocks."""
    world = a_world()
    moved(world, *before)
    check_end(world, play(world, runs, iter(choices), None))


@settings(max_examples=200)
@given(runs=RUNS, choices=CHOICES)
def test_of_runs_at_once_one_wins_and_the_others_say_so(
        runs: list[Any], choices: list[int]) -> None:
    """Where no request takes longer than the pause, one number in the log has one winner."""
    world = a_world()
    moved(world, "a", "b")
    done = play(world, [(action, clock, -1, False, False) for action, clock, *_ in runs],
                iter(choices), 4)
    check_end(world, done)
    won = [run.result.entry for run in done if isinstance(run.result, Moved) and run.result.entry]
    numbers = [one.entry.number for one in won]
    assert len(numbers) == len(set(numbers))
    counted = [*chain(repository(world.memory), read_state(repository(world.memory), "cpu").head)]
    assert {one.digest for one in won} <= {one.digest for one in counted}
    lost = {run.name for run in done if isinstance(run.error, LostError)}
    assert lost.isdisjoint(one.entry.run for one in counted)


def test_two_promotions_at_once_one_loses_clearly(world: World) -> None:
    moved(world, "a")
    runs = play(world, [(("promote", name), "", -1, False, False) for name in "bc"], iter(()), 4)
    lost = [run.error for run in runs if isinstance(run.error, LostError)]
    assert len(lost) == 1
    assert "another run moved cpu at the same time, so that entry 2 of this run does not" in (
        lost[0].what)
    assert pointed(world) in ("b", "c")


@given(choices=CHOICES)
def test_two_that_promote_the_same_image_are_both_content(choices: list[int]) -> None:
    world = a_world()
    moved(world, "a")
    runs = play(world, [(("promote", "b"), "", -1, False, False)] * 2, iter(choices), 4)
    assert [run.error for run in runs] == [None, None]
    assert sorted(run.result.entry is None for run in runs) == [False, True]
    assert pointed(world) == "b"
