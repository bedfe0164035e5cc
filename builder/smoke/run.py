"""One run of one level on one image: each check goes to the record as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from builder import console
from builder.bases.state import read_bases
from builder.diagnosis.catalogue import load
from builder.diagnosis.matching import diagnose
from builder.fetch.wheels import fetch_lock
from builder.gate.run import gate_cell, own_base
from builder.record.check import Check, OnCheck, Status
from builder.record.models import KnownFailure, Record
from builder.record.writer import RecordWriter
from builder.smoke.agreement import NAME, agreement
from builder.smoke.contract import check_contract
from builder.smoke.levels import generate, look
from builder.smoke.models import KeptLog, Observations, Run
from builder.smoke.nodes import serve_nodes
from builder.smoke.server import serve_and_ask
from builder.store.content_store import Store


def perform(run: Run, writer: RecordWriter) -> Record:
    """Run the level; whatever happens, each check and each line of the log is kept as it comes."""
    with closing(KeptLog(run.workspace.cache / writer.record.log)) as log:
        observed = Observations(log)

        def on_check(check: Check) -> None:
            console.info(f"  {check.status.value:5} {check.check}  {check.detail[:150]}")
            writer.add(check, phases=dict(observed.phases), gpus=observed.gpus,
                       metrics=dict(observed.metrics))
            log.raise_if_full()

        emulated = ", emulated" if run.emulated else ""
        console.info(f"smoke {run.cell.id}, level {run.level}{emulated}")
        _run_level(run, observed, on_check)
        return writer.finish(diagnosis=_diagnosis(run, writer.record.checks, log))


def _run_level(run: Run, observed: Observations, on_check: OnCheck) -> None:
    if run.level == "2":
        serve_and_ask(run, observed, on_check)
    elif run.level == "2x2":
        serve_nodes(run, observed, on_check)
    elif run.level == "1b":
        generate(run, observed.log, on_check)
    else:
        on_check(_gate_agrees(run, look(run, observed.log, on_check)))
        check_contract(run, observed.log, on_check)


def _gate_agrees(run: Run, checks: Sequence[Check]) -> Check:
    """Compare what the gate says with what the loader did in the image."""
    bases = read_bases(run.workspace)
    base = own_base(run.workspace, bases.get((run.cell.base_name, run.cell.platform)))
    if not base.digest:
        return Check(check=NAME, status=Status.NOT_APPLICABLE, detail="the base is not locked")
    store = Store(run.workspace.cache)
    report = gate_cell(run.workspace, run.cell, run.lock, base,
                       lambda: fetch_lock(run.lock, store, run.cell.indexes))
    return agreement(report.findings, checks)


def _diagnosis(run: Run, checks: Sequence[Check], lines: Sequence[str]
               ) -> tuple[KnownFailure, ...]:
    """Name the known failure when a check failed; what the versions rule out is said as such."""
    if all(check.status not in (Status.FAIL, Status.FLAKY) for check in checks):
        return ()
    versions = {} if run.foreign else {wheel.name: wheel.version for wheel in run.lock.wheels}
    return tuple(item.failure() for item in diagnose(lines, load(), checks, versions))
