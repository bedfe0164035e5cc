"""Levels 1a and 1b: look into an image and let the model answer in process, with no server."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from builder import process, specifiers
from builder.engine.client import Container, RunSpec
from builder.errors import SparkyardError
from builder.gate.rules import Excused, rules
from builder.limits import CONFIG_BYTES, SCRIPT_S, TooMuchError, read_file
from builder.locking.lock import Lock
from builder.matrix.cells import Cell
from builder.record.check import Check, OnCheck, Status, ignore
from builder.smoke.container_end import LifeEvents, find_end, running
from builder.smoke.models import Run
from builder.smoke.probes import degenerate
from builder.smoke.probes.cases import SHORT, AnswerCase, Need, battery, body

HERE = Path(__file__).parent
FOLDER = "/tmp/sparkyard"  # noqa: S108 - in the container
MODEL = "/models/tiny"
QUESTION, EXPECT = "What is the capital of France?", "Paris"
# Of the battery, what level 1a asks, too: the second is wrong, too, where pictures come in another
# size or order.
SHOWN = ("vision: colour", "vision: three pictures")
# Offline, silent, and with a key-value cache of one GiB where vLLM would take the host's memory.
# Nothing is compiled: vLLM's log probabilities alone would take minutes of an emulated g++. One
# thread: the others would only spin beside a model so small, and two smokes may share two cores.
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
               "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "WARNING",
               "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1"}
L1A = ("look.py", "extensions.py", "answer.py")
L1B = ("generate.py",)


def look(run: Run, log: list[str], on_check: OnCheck) -> list[Check]:
    """Level 1a, on any host: versions, toolchain, extensions, Gemma 4 through transformers."""
    with _container(run) as (box, events):
        return run_scripts(box, events, L1A, log, on_check)


def generate(run: Run, log: list[str], on_check: OnCheck) -> list[Check]:
    """Level 1b, on cells with a CPU backend: the same model through ``vllm.LLM``."""
    with _container(run) as (box, events):
        return run_scripts(box, events, L1B, log, on_check)


def script_input(cell: Cell, lock: Lock, *, sees: bool = False) -> dict[str, Any]:
    """Return what the scripts read from ``spec.json``: what to expect and what to ask.

    A model that ``sees`` is asked about pictures, too.
    """
    asked = [*short_cases("text"), *(short_cases("vision") if sees else ())]
    packages = ["torch", "transformers", "vllm"]
    packages += ["flashinfer"] if lock.wheel("flashinfer-python") else []
    return {
        "wheels": {wheel.name: wheel.version for wheel in lock.wheels}, "cuda": cell.cuda,
        "leave_out": list(cell.leave_out), "imports": packages, "model": MODEL,
        "question": QUESTION, "expect": EXPECT,
        "extensions": [rule.model_dump() for rule in rules().extension if _holds(rule, lock)],
        "operators": [rule.pattern for rule in rules().operators],
        "cases": [{**case.model_dump(mode="json", include={"name", "contains"}),
                   "messages": body(case, "")["messages"]} for case in asked],
        "pictures": [_shown(name) for name in SHOWN] if sees else [],
    }


def _holds(rule: Excused, lock: Lock) -> bool:
    """Say whether a rule is for the locked versions of its wheel and of torch."""
    wheel, torch = lock.wheel(rule.wheel) if rule.wheel else None, lock.wheel("torch")
    return rule.holds_beside(torch.version if torch else "") and (
        rule.versions == specifiers.ANY
        or bool(wheel and specifiers.allows(rule.versions, wheel.version)))


def short_cases(needs: Need) -> list[AnswerCase]:
    """Return the cases of the battery that need no server: one short answer in words each."""
    return [case for case in battery().cases
            if isinstance(case, AnswerCase) and case.needs == needs and case.max_tokens <= SHORT
            and not case.stream and not case.options and case.contains]


def _shown(name: str) -> dict[str, Any]:
    """Return a case's pictures as URLs, what is asked about them, and the words of the answer."""
    case = next(case for case in battery().cases
                if isinstance(case, AnswerCase) and case.name == name)
    *shown, asked = body(case, "")["messages"][0]["content"]
    words = [*zip(case.contains, case.order, strict=True)] if case.order else [case.contains]
    return {"urls": [each["image_url"]["url"] for each in shown], "question": asked["text"],
            "expect": [word for row in words for word in row]}


def sees(model: Path) -> bool:
    """Say whether a checkpoint has a vision tower; one that cannot be read fails where it loads."""
    try:
        config = json.loads(read_file(model / "config.json", CONFIG_BYTES, "a model's config.json"))
    except (OSError, ValueError, SparkyardError):
        return False
    return isinstance(config, dict) and bool(config.get("vision_config"))


@contextmanager
def _container(run: Run) -> Iterator[tuple[Container, LifeEvents]]:
    """Keep a container with the scripts, their input and the model inside."""
    assert run.model
    spec = RunSpec(run.reference, ("sleep", "infinity"), platform=run.cell.platform,
                   env=ENVIRONMENT, entrypoint="", network="none", shm_size="1g",
                   copies=((HERE / "inside", FOLDER),))
    with tempfile.TemporaryDirectory() as folder, running(run.engine, spec) as (box, events):
        file = Path(folder, "spec.json")
        file.write_text(json.dumps(script_input(
            run.cell, run.installed, sees=sees(run.model))), encoding="utf-8")
        box.copy_into(file, f"{FOLDER}/spec.json")
        box.copy_into(Path(degenerate.__file__), f"{FOLDER}/degenerate.py")
        box.exec(["mkdir", "-p", "/models"])
        box.copy_into(run.model, MODEL)
        yield box, events


def run_scripts(box: Container, events: LifeEvents, scripts: Sequence[str], log: list[str],
                on_check: OnCheck = ignore) -> list[Check]:
    """Run each script to its end; one that dies before its last result is a failure by name.

    Raises EngineError where the engine or the container was stopped from outside.
    """
    checks: list[Check] = []

    def keep(check: Check) -> None:
        checks.append(check)
        on_check(check)

    for name in scripts:
        started = time.monotonic()
        problem = _run_script(box, name, log, keep)
        if problem:
            if end := find_end(box, events):
                problem = f"the container ended with status {end.status}"
            keep(Check(check=f"{name} runs to its end", status=Status.FAIL,
                       detail=f"{problem}: {' | '.join(log[-3:])}",
                       seconds=time.monotonic() - started))
    return checks


def _run_script(box: Container, name: str, log: list[str], keep: OnCheck) -> str:
    """Run one script and keep its results; return why it did not reach its end, or nothing."""
    with box.stream_exec(["python", f"{FOLDER}/{name}"]) as child:
        overdue = threading.Timer(SCRIPT_S, child.kill)
        overdue.start()
        try:
            for raw in process.lines(child):
                line = raw.rstrip("\r")
                if check := parse(line):
                    keep(check)
                elif line:
                    log.append(line)
            status = child.wait()
        except TooMuchError as error:
            return f"it printed {error}"
        finally:
            in_time = overdue.is_alive()
            overdue.cancel()
    if not in_time:
        return f"it did not end within {SCRIPT_S:.0f} s"
    return f"it ended with status {status}" if status else ""


def parse(line: str) -> Check | None:
    """Read one ``@@`` line as a check; None for every other line."""
    if not line.startswith("@@ "):
        return None
    try:
        raw: Mapping[str, Any] = json.loads(line[3:])
        return Check.model_validate(raw)
    except (ValueError, RecursionError):  # pydantic's own is a ValueError
        return None
