"""What every report says about a record, whatever the format: verdict, place, facts, timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from builder import console
from builder import labels as label
from builder.record.check import Check, Status
from builder.record.models import Record
from builder.text import one_line

NOT_GB10 = "not verified on GB10"
WORST_FIRST = (Status.FAIL, Status.FLAKY, Status.PASS, Status.NOT_APPLICABLE)
BAD = (Status.FAIL, Status.FLAKY)
NAME = 80  # characters of a cell's id or a time; longer ones are hostile
SMALL = 0.01  # fraction of the run below which a part has no bar of its own


@dataclass(frozen=True)
class Bar:
    """One part of the run: ``start`` and ``seconds`` in seconds, ``kind`` boot, ask or rest."""

    name: str
    kind: str
    start: float
    seconds: float

    @property
    def end(self) -> float:
        """Return when it ended, in seconds after the start of the run."""
        return self.start + self.seconds


def verdict(record: Record) -> str:
    """Return the verdict in one word, or the state of a run that did not reach its end."""
    if record.state != "finished":
        return record.state.upper()
    return "PASSED" if record.passed else "FAILED"


def place(record: Record) -> str:
    """Return where it was measured, and that this is not verified on a GB10 unless it is."""
    return f"measured: {record.where}" + ("" if record.where == "gb10" else f"; {NOT_GB10}")


def unended(record: Record) -> str:
    """Say why there is no verdict; empty for a run that reached its end."""
    if record.state == "finished":
        return ""
    why = record.reason or "it has not recorded how it ended"
    return f"{record.state}, no verdict: {why}"


def title(record: Record) -> str:
    """Return what was run, and on what."""
    cell = one_line(record.cell, NAME)
    return f"bench {cell}" if record.level == "bench" else f"smoke {cell}, level {record.level}"


def when(time: str) -> str:
    """Return a record's time for people: ``2026-01-02 03:04:05 UTC``."""
    return one_line(time, NAME).replace("T", " ").replace("Z", " UTC")


def facts(record: Record) -> Iterator[tuple[str, str]]:
    """Yield what identifies the run: label and value; nothing for what the record does not hold."""
    named = {"recipe": record.recipe, "recipe file": record.recipe_digest,
             "model": _model(record), "image": record.image, "image digest": record.image_digest,
             "image id": record.image_id, "lock": record.lock,
             "image was built from": _other_lock(record), "record": record.digest}
    yield from ((name, value) for name, value in named.items() if value)
    yield from versions(record.labels)
    yield from _machine(record)
    yield "started", when(record.started)
    yield "took", console.seconds(record.seconds)
    yield "log", record.log


def _other_lock(record: Record) -> str:
    """Return the lock that the image's label names where it is not the record's own."""
    labelled = record.labels.get(label.LOCK, "")
    return f"another lock: {labelled}" if labelled not in ("", record.lock) else ""


def _model(record: Record) -> str:
    """Return the checkpoint and its revision."""
    if record.model is None:
        return ""
    source = record.model.repository or record.model.path or record.model.name
    return f"{source} at {record.model.revision}"


def _machine(record: Record) -> Iterator[tuple[str, str]]:
    for gpu in record.gpus:
        yield "GPU", ", ".join(str(value) for value in gpu.model_dump().values() if value)
    host = record.host
    named = {"processor": f"{host.cpus} x {host.cpu or host.machine}" if host.cpus else "",
             "memory": console.size(host.memory) if host.memory else "", "system": host.system,
             "kernel": f"{host.kernel} {host.machine}".strip(), "engine": host.engine}
    yield from ((name, value) for name, value in named.items() if value)
    if record.host_state:
        yield "doctor", str(record.host_state)


def versions(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the versions that the labels of the image name."""
    prefix = label.VERSION
    yield from ((key.removeprefix(prefix), value) for key, value in sorted(labels.items())
                if key.startswith(prefix))


def counts(record: Record) -> dict[Status, int]:
    """Return how many checks ended in each status, worst first, zeros included."""
    ended = Counter(check.status for check in record.checks)
    return {status: ended[status] for status in WORST_FIRST}


def summary(record: Record) -> str:
    """Return the counts in words: ``1 fail, 37 pass, 2 not applicable``."""
    return ", ".join(f"{count} {status.value}" for status, count in counts(record).items() if count
                     ) or "no checks"


def worst_first(checks: Sequence[Check]) -> list[Check]:
    """Return failed checks first, then flaky ones, then the others in the order of the run."""
    return sorted(checks, key=lambda check: min(WORST_FIRST.index(check.status), len(BAD)))


def family(check: str) -> tuple[str, str]:
    """Split ``tools: single`` into the family and the rest."""
    for word in ("log shows ", "log lacks "):
        if check.startswith(word):
            return "log", check.removeprefix("log ")
    head, colon, rest = check.partition(": ")
    return (head, rest) if colon else ("", check)


def timeline(record: Record) -> list[Bar]:
    """Return the run as consecutive parts: boot phases, families of checks, the rest.

    Checks run one after the other, so their durations add up; the boot is shown by its phases.
    """
    parts = [(name, "boot", seconds) for name, seconds in record.phases.items()]
    asked: dict[str, float] = {}
    for check in record.checks:
        if not (record.phases and check.check == "boot"):
            name = family(check.check)[0] or check.check
            asked[name] = asked.get(name, 0.0) + check.seconds
    least = SMALL * record.seconds
    parts += [(name, "ask", seconds) for name, seconds in asked.items() if seconds >= least]
    small = [seconds for seconds in asked.values() if seconds < least]
    parts.append((f"{len(small)} short checks", "ask", sum(small)))
    parts.append(("rest", "rest", record.seconds - sum(seconds for _, _, seconds in parts)))
    return list(_in_sequence(parts))


def _in_sequence(parts: Sequence[tuple[str, str, float]]) -> Iterator[Bar]:
    start = 0.0
    for name, kind, seconds in parts:
        if seconds > 0.0:
            yield Bar(name, kind, start, seconds)
            start += seconds
