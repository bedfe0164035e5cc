"""What our servers do now, asked of themselves: state, answers, memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from builder.engine.client import Engine
from builder.engine.service import Attached
from builder.errors import EngineError, command
from builder.serve import memory
from builder.serve.answering import answers
from builder.serve.boot import known_failure, phase, read_log
from builder.serve.servers import Server, Survey, Switch
from builder.smoke.processes import look_into

KILLED = 137


@dataclass(frozen=True)
class Row:
    """One server as ``status`` shows it; ``good`` is false where it does not do what it should."""

    recipe: str
    cell: str
    image: str
    state: str
    address: str
    since: str
    by: str
    answers: str
    memory: int
    restart: bool
    container: str
    good: bool

    def document(self) -> dict[str, object]:
        """Return the row as JSON has it."""
        return asdict(self)


def rows(engine: Engine, known: Survey) -> list[Row]:
    """Look at every server and ask those that run."""
    gpu = memory.look().gpu or ()
    return [_row(engine, server, known, {process.pid: process.memory or 0 for process in gpu})
            for server in known.servers]


def _row(engine: Engine, server: Server, known: Survey, gpu: dict[int, int]) -> Row:
    state, said, good = _state(engine, server, known.switch)
    return Row(server.recipe, server.cell, server.image_id.removeprefix("sha256:")[:12], state,
               server.url, server.started[:19] + "Z" if server.was_started else "", server.by,
               said, _memory(engine, server, gpu), server.restart, server.name, good)


def _state(engine: Engine, server: Server, cut_off: Switch | None) -> tuple[str, str, bool]:
    """Return the state, what it says when asked, and whether both are as they should be."""
    status = server.state.status
    if status == "running":
        said, good = answers(server)
        if good:
            return "ready", said, True
        where = phase(read_log(engine, server))
        if said.startswith(("nobody", "/health")) and not where.startswith("dead"):
            return f"starting: {where}" if where != "ready" else "running", said, where != "ready"
        return "running", where if where.startswith("dead") else said, False
    if cut_off and server.id == cut_off.old.id:
        return "stopped, kept to go back to", "", False
    if not server.was_started:
        return "created, never started", "", False
    if status == "exited":
        return _end(engine, server), "", False
    return status, "", False


def _end(engine: Engine, server: Server) -> str:
    """Say how a server ended, with the name of the known failure where its log shows one."""
    code, name = server.state.exit_code, known_failure(read_log(engine, server))
    how = ("killed for memory" if server.state.out_of_memory else "killed" if code == KILLED
           else f"ended with status {code}")
    return f"{how} ({name})" if name else how


def _memory(engine: Engine, server: Server, gpu: dict[int, int]) -> int:
    """Return the bytes that a server holds: its programs' own, and on the GPU."""
    if server.state.status != "running":
        return 0
    try:
        box = Attached(engine.docker, server.id, server.image)
        return look_into(box).held + sum(gpu.get(pid, 0) for pid in box.pids())
    except EngineError:
        return 0


def notes(known: Survey, busy: str) -> Iterator[str]:
    """Yield what a reader has to know beside the rows: who is at work, what was cut off."""
    if busy:
        yield f"at work now: {busy}"
    elif known.switch:
        old, new = known.switch.old, known.switch.new
        yield (f"a switch from {old.recipe} to {new.recipe} was cut off. Finish it: "
               f"{command('switch', new.recipe)}, or go back: {command('switch', old.recipe)}")
