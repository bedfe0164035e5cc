"""The mixed load of a soak: lanes that ask beside each other, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from threading import Event, Lock, Thread

from builder.recipes.models import Capabilities
from builder.record.check import Check, Status
from builder.smoke.client import Client
from builder.smoke.probes.cases import SHORT, AnswerCase, Case, FilledCase, battery, body
from builder.smoke.probes.kinds import probe
from builder.smoke.probes.outcome import ProbeResult
from builder.smoke.probes.run import attempt
from builder.smoke.soak.long import LongAnswers

ANSWERS, TOOLS, PICTURES = "short answers", "tool calls, streamed at once", "pictures"
CONTEXTS, LONG, CANCELLED = "long contexts", "long answers", "cancelled streams"
TALKERS, TOOL_USERS, CANCEL_EVERY = 2, 3, 4


@dataclass(frozen=True)
class Question:
    """One thing to ask: of which kind, by which name, and how."""

    kind: str
    name: str
    ask: Callable[[Client], ProbeResult]


@dataclass(frozen=True)
class Lane:
    """Questions that are asked one after the other, without end; ``long`` ones are waited for."""

    questions: Iterator[Question]
    long: bool = False


@dataclass(frozen=True)
class Wrong:
    """A wrong answer: when, after how many answers and tokens, and whether it was right again."""

    minute: float
    answers: int
    tokens: float
    flaky: bool
    what: str


@dataclass
class Tally:
    """The answers of one kind."""

    right: int = 0
    wrong: int = 0
    first: dict[bool, Wrong] = field(default_factory=dict)  # by whether it is flaky

    def check(self, kind: str) -> Check:
        """Return the check of this kind: the first wrong answer decides."""
        count = self.right + self.wrong
        if not count:
            return Check(check=f"soak: {kind}", status=Status.NOT_APPLICABLE,
                         detail="no answer ended in this time")
        if not self.wrong:
            return Check(check=f"soak: {kind}", status=Status.PASS,
                         detail=f"all {count} were right")
        first = self.first.get(False) or self.first[True]
        return Check(
            check=f"soak: {kind}", status=Status.FLAKY if first.flaky else Status.FAIL,
            detail=f"from minute {first.minute:.1f} on, after {first.answers} answers and "
                   f"{first.tokens:,.0f} tokens of the server: {first.what}; {self.wrong} of "
                   f"{count} were wrong")


def lanes(able: Capabilities) -> list[Lane]:
    """Return what is asked at once of a model that is able to so much."""
    cases = [case for case in battery().cases if not case.inapplicable(able)]
    short = [case for case in cases if isinstance(case, AnswerCase) and (
        case.needs == "reasoning" or (case.needs == "text" and case.max_tokens <= SHORT))]
    tools = [case for case in cases if isinstance(case, AnswerCase) and case.needs == "tools"
             and case.stream]
    seen = [case for case in cases if isinstance(case, AnswerCase) and case.needs == "vision"]
    filled = [case for case in cases if isinstance(case, FilledCase)]
    long = Question(LONG, "long answer", LongAnswers(able).ask)
    found = [Lane(_with_cancels(_turned(short, turn, TALKERS), able)) for turn in range(TALKERS)]
    found += [Lane(_asked(TOOLS, _turned(tools, turn, TOOL_USERS)))
              for turn in range(TOOL_USERS) if tools]
    found += [Lane(_asked(kind, some)) for kind, some in ((PICTURES, seen), (CONTEXTS, filled))
              if some]
    return [*found, Lane(cycle([long]), long=True)]


def _turned(cases: Sequence[Case], turn: int, of: int) -> list[Case]:
    """Return the cases from another one on, so that lanes do not ask the same at once."""
    at = turn * len(cases) // of
    return [*cases[at:], *cases[:at]]


def _asked(kind: str, cases: Sequence[Case]) -> Iterator[Question]:
    return cycle([Question(kind, case.name, _how(case)) for case in cases])


def _how(case: Case) -> Callable[[Client], ProbeResult]:
    return lambda client: probe(client, case)


def _with_cancels(cases: Sequence[Case], able: Capabilities) -> Iterator[Question]:
    """Yield the cases without end, with a stream that is left after its first piece among them."""
    for number, question in enumerate(_asked(ANSWERS, cases), 1):
        yield question
        if number % CANCEL_EVERY == 0:
            yield Question(CANCELLED, "cancelled stream", _cancel(able))


def _cancel(able: Capabilities) -> Callable[[Client], ProbeResult]:
    case = max((case for case in battery().cases if isinstance(case, AnswerCase) and case.stream
                and case.needs in ("text", "general") and not case.inapplicable(able)),
               key=lambda case: case.max_tokens)

    def ask(client: Client) -> ProbeResult:
        client.abandon(body(case, client.model))
        return ProbeResult("left after its first piece")

    return ask


class Load:
    """The lanes at work, round by round; ``minute`` is the clock of the soak."""

    def __init__(self, client: Client, lanes: Sequence[Lane], minute: Callable[[], float]) -> None:
        """Begin with nothing asked."""
        self._client, self._lanes, self._minute = client, lanes, minute
        self.tallies: dict[str, Tally] = {}
        self.busy = self.answered = 0
        self.tokens = 0.0  # that the server has written, as its counters say
        self._threads: list[tuple[Lane, Thread]] = []
        self._over, self._ended, self._left = Event(), Event(), Event()
        self._lock = Lock()

    def begin(self) -> None:
        """Start a round."""
        self._over.clear()
        self._ended.clear()
        self._threads = [(lane, Thread(target=self._work, args=(lane,), daemon=True))
                         for lane in self._lanes]
        for _, thread in self._threads:
            thread.start()

    def call_off(self) -> None:
        """End the round when the long answer that is being written has come to its end."""
        self._over.set()
        if not any(lane.long and thread.is_alive() for lane, thread in self._threads):
            self._ended.set()

    def working(self) -> bool:
        """Say whether a request of this round has not been answered yet, or one is to come."""
        return any(thread.is_alive() for _, thread in self._threads)

    def leave(self) -> None:
        """Ask nothing more, and keep nothing of what is still open; do not wait for it."""
        for event in (self._left, self._over, self._ended):
            event.set()

    def _work(self, lane: Lane) -> None:
        client = self._client.another()
        end = self._over if lane.long else self._ended
        while not end.is_set():
            self._ask(client, next(lane.questions))

    def _ask(self, client: Client, question: Question) -> None:
        """Ask, once more after a wrong answer, and keep what came unless the soak was left."""
        with self._lock:
            self.busy += 1
        minute, first = self._minute(), attempt(lambda: question.ask(client))
        again = first
        if first.problem and not self._left.is_set():
            again = attempt(lambda: question.ask(client))
        with self._lock:
            self.busy -= 1
            if not self._left.is_set():
                self._keep(question, minute, first, again)

    def _keep(self, question: Question, minute: float, first: ProbeResult, again: ProbeResult
              ) -> None:
        self.answered += 1
        tally = self.tallies.setdefault(question.kind, Tally())
        if not first.problem:
            tally.right += 1
            return
        tally.wrong += 1
        flaky = not again.problem
        said = "right when it was asked again" if flaky else f"asked again: {again.problem}"
        tally.first.setdefault(flaky, Wrong(
            minute, self.answered, self.tokens, flaky,
            f"{question.name}: {first.answer[:100]!r}; {first.problem[:300]}; {said[:300]}"))
