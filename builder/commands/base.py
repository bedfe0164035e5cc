"""``sparkyard base``: the base images, found, pulled or made from their locked packages."""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

from builder import console
from builder.bases.provision import ReadyBase, ensure, upgrade
from builder.bases.state import chosen, stale
from builder.engine.client import Engine
from builder.errors import LockError, NetworkError
from builder.locking.base_lock import UPGRADE_STEP, Key
from builder.workspace import Workspace, open_workspace

COLUMNS = ("base", "platform", "python", "glibc", "packages", "state", "image")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "base", help="make the base images, or find them", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="bases of the matrix (default: every one that is locked)")
    parser.add_argument("--platform", action="append", default=[],
                        choices=["linux/amd64", "linux/arm64"], help="only for this platform")
    parser.add_argument("--upgrade", action="store_true",
                        help="take what is newest now and renew locks/bases.toml")
    parser.add_argument("--check", action="store_true",
                        help="only say whether the lock answers the matrix")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Make or find each base, the platforms side by side, and show what is there."""
    workspace = open_workspace(options.matrix)
    keys = chosen(workspace, options.names, options.platform)
    if options.check:
        return _check(workspace, keys)
    engine = Engine.connect()
    started = time.monotonic()
    if options.upgrade:
        ready = [_upgraded(workspace, engine, key, named=bool(options.names)) for key in keys]
    else:
        keys = [key for key in keys if options.names or not _unmade(workspace, key)]
        with ThreadPoolExecutor(max(len(keys), 1)) as pool:
            ready = list(pool.map(lambda key: ensure(workspace, engine, key, ask=True), keys))
    console.table("", COLUMNS, [_row(base) for base in ready if base])
    console.info(f"bases ready in {console.seconds(time.monotonic() - started)}")
    return 0


def _unmade(workspace: Workspace, key: Key) -> bool:
    """Say of a cuda base without a lock that it is passed over; naming it tries to make it."""
    reason = stale(workspace, key)
    if workspace.matrix.bases[key[0]].flavour != "cuda" or not reason:
        return False
    console.info(f"base {key[0]} {key[1]}: {reason}; passed over")
    return True


def _upgraded(workspace: Workspace, engine: Engine, key: Key, *, named: bool) -> ReadyBase | None:
    """Renew one base; one that is out of reach stops the run only where it was named."""
    try:
        return upgrade(workspace, engine, key)
    except NetworkError as error:
        if named:
            raise
        console.warn(f"base {key[0]} {key[1]} stays as it is: {error.what}")
        return None


def _check(workspace: Workspace, keys: list[Key]) -> int:
    """Raise LockError where the lock does not answer; a cuda base out of reach is only named."""
    wrong = []
    for key in keys:
        reason = stale(workspace, key)
        if reason.startswith("not locked") and workspace.matrix.bases[key[0]].flavour == "cuda":
            console.info(f"base {key[0]} {key[1]}: {reason}")
        elif reason:
            wrong.append(f"{key[0]} {key[1]}: {reason}")
    if wrong:
        raise LockError("\n".join(["a base's lock is stale", *wrong]), where="locks/bases.toml",
                        next_step=UPGRADE_STEP)
    console.info("the bases' lock answers the matrix")
    return 0


def _row(base: ReadyBase) -> tuple[object, ...]:
    locked = base.locked
    state = f"unlocked, {base.how}" if locked.unlocked else f"locked, {base.how}"
    return (locked.name, locked.platform, locked.python, locked.glibc, len(locked.packages),
            state, base.reference)
