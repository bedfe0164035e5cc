"""``base``: find, pull or make the base images, and lock them."""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

from builder import console
from builder.bases.facts import facts_fault
from builder.bases.provision import ReadyBase, ensure, upgrade, upgrade_step
from builder.bases.state import Bases, BaseState, lock_file, read_bases, select_keys
from builder.engine.client import Engine
from builder.errors import LockError, NetworkError, command
from builder.locking.base_lock import Key
from builder.workspace import Workspace, open_workspace

COLUMNS = ("base", "platform", "python", "glibc", "packages", "state", "image")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "base", help="find, pull or make the base images",
        description="Find each base in the engine or pull it from the registry; where neither has "
                    "it, make it from its locked Debian packages (needs root).")
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="bases of the matrix (default: all that are locked)")
    parser.add_argument("--platform", action="append", default=[],
                        choices=["linux/amd64", "linux/arm64"], help="only for this platform")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--upgrade", action="store_true",
                      help="make the bases from the newest packages and write locks/bases.toml")
    mode.add_argument("--check", action="store_true",
                      help="only check that locks/bases.toml still answers the matrix")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Find or make each base, several platforms at a time, and show the result."""
    workspace = open_workspace(options.matrix)
    bases = read_bases(workspace)
    keys = select_keys(workspace, options.names, options.platform)
    if options.check:
        return _check(workspace, bases, keys)
    engine = Engine.connect()
    started = time.monotonic()
    if options.upgrade:
        upgraded = [_upgraded(workspace, engine, key, named=bool(options.names)) for key in keys]
        ready = [base for base in upgraded if base]
        _warn_of_stale_platforms(read_bases(workspace), {base.locked.name for base in ready})
    else:
        keys = [key for key in keys if options.names or not _out_of_reach(workspace, bases, key)]
        with ThreadPoolExecutor(max(len(keys), 1)) as pool:
            ready = list(pool.map(
                lambda key: ensure(workspace, engine, key, bases=bases, ask=True), keys))
    console.table("", COLUMNS, [_row(base) for base in ready])
    console.info(f"{len(ready)} bases ready in {console.seconds(time.monotonic() - started)}")
    return 0


def _out_of_reach(workspace: Workspace, bases: Bases, key: Key) -> bool:
    """Say of a cuda base without a lock that it is skipped; naming it tries to make it."""
    standing = bases.standings[key]
    if (standing.state is not BaseState.MISSING
            or workspace.matrix.bases[key[0]].flavour != "cuda"):
        return False
    console.info(f"base {' '.join(key)} is skipped: {standing.why}")
    return True


def _upgraded(workspace: Workspace, engine: Engine, key: Key, *, named: bool) -> ReadyBase | None:
    """Renew one base; one that is out of reach stops the run only where it was named."""
    try:
        return upgrade(workspace, engine, key)
    except NetworkError as error:
        if named:
            raise
        console.warn(f"base {' '.join(key)} is unchanged: {error.what}")
        return None


def _warn_of_stale_platforms(bases: Bases, names: set[str]) -> None:
    """Name the other platforms of upgraded bases whose locks no longer answer: nothing builds."""
    for (name, platform), standing in bases.standings.items():
        if name in names and standing.state is BaseState.STALE:
            step = command("base", name, "--upgrade", "--platform", platform)
            console.warn(f"base {name} {platform} is still stale: {standing.why}; run {step}")


def _check(workspace: Workspace, bases: Bases, keys: list[Key]) -> int:
    """Raise LockError where the lock does not answer; a cuda base out of reach is only named."""
    wrong = []
    for key in keys:
        standing = bases.standings[key]
        if _out_of_reach(workspace, bases, key):
            continue
        if standing.state in (BaseState.STALE, BaseState.MISSING) or key not in bases.committed:
            wrong.append((key, standing.why))
        elif fault := facts_fault(workspace.locks, bases.committed[key]):
            wrong.append((key, fault))
    if wrong:
        names = sorted({name for (name, _), _ in wrong})
        raise LockError("\n".join(["the lock of the bases does not answer the matrix:",
                                   *(f"  {' '.join(key)}: {why}" for key, why in wrong)]),
                        where=str(lock_file(workspace)), next_step=upgrade_step(*names))
    console.info("locks/bases.toml answers the matrix and the recipes")
    return 0


def _row(base: ReadyBase) -> tuple[object, ...]:
    locked = base.locked
    state = f"{'unlocked' if locked.unlocked else 'locked'}, {base.origin}"
    return (locked.name, locked.platform, locked.python, locked.glibc, len(locked.packages),
            state, base.reference)
