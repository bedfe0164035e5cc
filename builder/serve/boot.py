"""A start followed to its end: ready and answering rightly, or dead, hung or wrong, with a name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from builder import console
from builder.diagnosis.catalogue import load
from builder.diagnosis.matching import diagnose
from builder.engine.client import Engine
from builder.engine.service import Attached
from builder.errors import EngineError
from builder.files import write_text
from builder.limits import LOG_BYTES, patience
from builder.recipes.models import Capabilities
from builder.record.check import Check, Status
from builder.serve.answering import client_of, failed, short_battery
from builder.serve.servers import Server
from builder.smoke.client import Client
from builder.smoke.container_end import LifeEvents
from builder.smoke.log import LINE, Log
from builder.smoke.models import KeptLog
from builder.smoke.readiness import Boot
from builder.smoke.watch import Watch, await_health

HEALTH_WITHIN_S = 30.0
LOG_END_WITHIN_S = 5.0
READ_LOG_S = 60.0  # somebody waits for `status`; the engine gives 1 GB in 20 s


@dataclass(frozen=True)
class Outcome:
    """How a start ended: nothing in ``why`` is ready. ``log`` is kept where it failed."""

    why: str = ""
    log: Path | None = None
    known: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Say whether the server answers rightly."""
        return not self.why


def follow(engine: Engine, server: Server, able: Capabilities, cache: Path,
           versions: Mapping[str, str], *, emulated: bool = False) -> Outcome:
    """Follow a start until the server answers rightly, or never will.

    The container is left as it is, whatever happens. Raises EngineError where it was stopped or
    removed by somebody else.
    """
    box = Attached(engine.docker, server.id, server.image)
    lines = KeptLog()
    try:
        checks = _watch(box, lines, server, able, emulated=emulated)
    finally:
        box.close()
    why = failed(checks)
    return _explained(why, checks, lines, kept_log(cache, server), versions) if why else Outcome()


def _watch(box: Attached, lines: KeptLog, server: Server, able: Capabilities, *,
           emulated: bool) -> list[Check]:
    log, slow = Log(box, lines), patience(emulated=emulated)
    watch = Watch(box, LifeEvents(box), log, Boot(scale=slow))
    checks = [watch.boot()]
    if checks[0].status is Status.PASS:
        client = client_of(server, slow)
        if box.state().running:
            await_health(client, HEALTH_WITHIN_S)
            checks += _ask(client, able)
        if (failed(checks) or len(checks) == 1) and (gone := watch.gone(client)):
            checks[0] = checks[0].model_copy(update={"status": Status.FAIL, "detail": gone})
    if failed(checks):
        box.close()  # the last lines come when nothing follows any more
        log.join(LOG_END_WITHIN_S)
    return checks


def _ask(client: Client, able: Capabilities) -> Iterator[Check]:
    """Ask the short battery up to its first failure: a dead server is not asked again."""
    for check in short_battery(client, able):
        console.info(f"  {check.status.value:5} {check.check}  {check.detail[:100]}")
        yield check
        if check.status is Status.FAIL:
            return


def _explained(why: str, checks: list[Check], lines: KeptLog, file: Path,
               versions: Mapping[str, str]) -> Outcome:
    known = tuple(str(item) for item in diagnose(lines, load(), checks, versions) if item.claimed)
    outcome = Outcome(why, None, known)
    try:
        write_text(file, "\n".join(lines) + "\n")
    except OSError as error:
        console.warn(f"the log could not be kept: {error.strerror}")
        return outcome
    return replace(outcome, log=file)


def kept_log(cache: Path, server: Server) -> Path:
    """Return where the log of a server that failed is kept."""
    return cache / "logs" / f"{server.name}.log"


def read_log(engine: Engine, server: Server) -> list[str]:
    """Return the log of a server's last run as it stands; nothing where it is gone.

    Of one that is very long the beginning is kept, and what came last within the time for it.
    """
    lines = KeptLog(limit=LOG_BYTES)
    with suppress(EngineError):
        for line in Attached(engine.docker, server.id, server.image).logs(within=READ_LOG_S):
            lines.append(line[:LINE])
    return lines


def phase(lines: list[str]) -> str:
    """Return the phase of the boot that a log has come to; what is dead says so."""
    boot = Boot()
    for line in lines:
        boot.line(line)
    return f"dead: {boot.dead[:150]}" if boot.dead else boot.name


def known_failure(lines: list[str]) -> str:
    """Return the name of the known failure that a log shows; nothing where it shows none."""
    return next((item.issue.name for item in diagnose(lines, load()) if item.claimed), "")
