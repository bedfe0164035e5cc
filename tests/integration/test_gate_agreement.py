"""The gate's word on every extension of the CPU image beside the loader's, both ways.

Once as the image is, and once with a system library that defines nothing any more. The emulated
GPU image is held against the gate by smoke level 1a.
"""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from builder.bases.facts import committed
from builder.bases.state import read_bases
from builder.binaries.facts import BaseFacts, WheelFacts
from builder.binaries.wheel_facts import read_wheels
from builder.engine.client import Engine, RunSpec
from builder.fetch.wheels import fetch_lock
from builder.gate.abi import Target, check_abi
from builder.gate.rules import rules
from builder.image import local_name
from builder.locking.lock import load_for
from builder.matrix.cells import select
from builder.record.check import Check, Status
from builder.smoke.agreement import agreement
from builder.smoke.container_end import running
from builder.smoke.levels import FOLDER, HERE, run_scripts
from builder.store.content_store import Store
from builder.workspace import cache_folder, open_workspace

pytestmark = [
    pytest.mark.engine, pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the image is for x86-64"),
]

WORKSPACE = open_workspace(Path(__file__).parents[2] / "matrix.toml")
CELL = select(WORKSPACE.cells, ["cpu"])[0]
NUMA = "libnuma.so.1"
EMPTIED = (f"file=$(readlink -f /usr/lib/x86_64-linux-gnu/{NUMA}); "
           f"echo | gcc -shared -fPIC -x c -Wl,-soname,{NUMA} -o /tmp/empty.so - && "
           'cp /tmp/empty.so "$file"')


@cache
def closure() -> tuple[WheelFacts, ...]:
    lock = load_for(CELL, WORKSPACE.locks)
    paths = fetch_lock(lock, Store(cache_folder()), CELL.indexes).paths
    return read_wheels([(paths[wheel], wheel.sha256) for wheel in lock.wheels], cache_folder())


def base() -> BaseFacts:
    facts = committed(WORKSPACE.locks,
                      read_bases(WORKSPACE).committed[CELL.base_name, CELL.platform])
    assert facts is not None, "the committed facts are of another base than the lock's"
    return facts


def emptied(facts: BaseFacts) -> BaseFacts:
    """Return the base with a libnuma that is there, and defines nothing."""
    assert any(one.soname == NUMA for one in facts.libraries)
    return replace(facts, libraries=tuple(
        replace(one, defined=(), defined_versions=()) if one.soname == NUMA else one
        for one in facts.libraries))


def loaded(before: str, folder: Path) -> list[Check]:
    """Run ``before`` in the image, then load each extension with all its symbols bound."""
    spec = RunSpec(local_name(WORKSPACE.registry, CELL), ("sleep", "infinity"), entrypoint="",
                   network="none", copies=((HERE / "inside", FOLDER),))
    asked = folder / "spec.json"
    asked.write_text(json.dumps({"cuda": None, "extensions": [], "operators": [
        rule.pattern for rule in rules().operators]}))
    with running(Engine.connect(), spec) as (box, events):
        box.copy_into(asked, f"{FOLDER}/spec.json")
        changed = box.exec(["sh", "-euc", before])
        assert changed.returncode == 0, changed.stderr
        return run_scripts(box, events, ("extensions.py",), [])


@pytest.mark.parametrize("broken", [False, True])
def test_gate_and_loader_agree_on_every_extension(tmp_path: Path, *, broken: bool) -> None:
    on = emptied(base()) if broken else base()
    found = check_abi(closure(), on, Target("3.11", "x86_64", cuda=False))
    checks = loaded(EMPTIED if broken else "true", tmp_path)
    said = agreement(found, checks)
    assert said.status is Status.PASS, said.detail
    unbound = {one.file for one in found if one.code == "undefined-symbol"}
    assert ("vllm/_C.abi3.so" in unbound) is broken
    names = {check.check for check in checks if check.status is Status.FAIL}
    assert ("extension vllm/_C.abi3.so" in names) is broken
