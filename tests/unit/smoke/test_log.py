"""A container's log, followed by a thread: new lines as they come, all of them kept."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import cast

from builder.engine.client import Container
from builder.limits import TooMuchError
from builder.smoke.log import LINE, UNREAD, Log


class Box:
    """A container that prints some lines, waits, and prints some more."""

    def __init__(self, *first: str, later: tuple[str, ...] = (), too_much: bool = False) -> None:
        self.first, self.later, self.too_much = first, later, too_much
        self.go_on = Event()

    def logs(self, *, follow: bool) -> Iterator[str]:
        assert follow
        yield from self.first
        if self.too_much:
            raise TooMuchError("more than 64 MB")
        self.go_on.wait(30)
        yield from self.later


def follow(box: Box, lines: list[str] | None = None) -> Log:
    return Log(cast(Container, box), lines)


def test_lines_come_once_and_are_kept() -> None:
    box = Box("one", "two", later=("three",))
    log = follow(box)
    got: list[str] = []
    while len(got) < 2:
        got += log.fresh(5)
    assert list(log.fresh(0)) == []
    box.go_on.set()
    got += log.fresh(5)
    assert got == log.lines == ["one", "two", "three"]


def test_the_last_lines_can_be_waited_for() -> None:
    box = Box(later=("the last word",))
    kept: list[str] = []
    log = follow(box, kept)
    box.go_on.set()
    log.join(30)
    assert kept == ["the last word"]


def test_a_line_without_an_end_is_cut() -> None:
    box = Box("x" * (LINE + 5))
    box.go_on.set()
    log = follow(box)
    log.join(30)
    assert [len(line) for line in log.lines] == [LINE]


def test_a_log_that_is_too_much_ends_in_words() -> None:
    log = follow(Box("one", too_much=True))
    log.join(30)
    assert log.lines == ["one", "[sparkyard] the log is no longer followed: more than 64 MB"]


def test_of_lines_that_nobody_waits_for_only_the_last_wait() -> None:
    """A server may write gigabytes while it is asked; the log itself keeps both of its ends."""
    box = Box(later=tuple(map(str, range(3 * UNREAD))))
    log = follow(box)
    log.bounded = True
    box.go_on.set()
    log.join(30)
    assert list(log.fresh(0)) == [str(number) for number in range(2 * UNREAD, 3 * UNREAD)]
    assert len(log.lines) == 3 * UNREAD


def test_during_the_boot_every_line_waits() -> None:
    """A server that has answered thousands says that it is ready far before its last line."""
    box = Box("ready", *map(str, range(3 * UNREAD)))
    box.go_on.set()
    log = follow(box)
    log.join(30)
    assert next(log.fresh(0)) == "ready"
