"""``sparkyard engine``: install and start what builds need and this machine lacks.

A Docker engine with buildx, arm64 emulation and a local registry. What works already is left as it
is.
"""

from __future__ import annotations

import argparse
import sys

from builder import console
from builder.errors import SparkyardError, UsageError, command
from builder.host.plan import Step, plan
from builder.host.setup import detect, perform, summary
from builder.matrix.load import load_matrix
from builder.workspace import cache_folder, named_registry

DEFAULT_REGISTRY = "127.0.0.1:5000/sparkyard"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "engine", help="install and start Docker, buildx, arm64 emulation and a local registry",
        description="Install and start what builds need and this machine lacks: a Docker engine "
                    "with buildx, arm64 emulation and a local registry. What works already is left "
                    "as it is.")
    parser.add_argument("--yes", action="store_true", help="make the changes without asking")
    parser.add_argument("--dry-run", action="store_true", help="only list the changes")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """List the changes, make them, show the result."""
    registry, cache = _registry(options), cache_folder(make=not options.dry_run)
    host = detect(registry, cache)
    steps = plan(host, cache)
    _announce(steps)
    if steps and not options.dry_run:
        _consent(yes=options.yes)
        perform(steps, host)
        host = detect(registry, cache)
    console.table("", ["part", "state"], summary(host))
    return 0


def _registry(options: argparse.Namespace) -> str:
    """Return the registry in use; a broken matrix must not keep an engine from coming up."""
    if named := named_registry():
        return named
    try:
        return load_matrix(options.matrix).registry
    except SparkyardError:
        return DEFAULT_REGISTRY


def _announce(steps: tuple[Step, ...]) -> None:
    if not steps:
        console.info("nothing to change: engine, buildx, arm64 and registry work")
        return
    console.info("changes to this machine:")
    for number, step in enumerate(steps, 1):
        console.info(f"  {number}. {step.title}")


def _consent(*, yes: bool) -> None:
    """Ask the user; raises UsageError on a no, and where there is no terminal to ask on."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("these changes need confirmation, and there is no terminal to ask on",
                         where=command("engine"),
                         next_step=f"confirm with {command('engine', '--yes')}")
    console.info("make these changes? [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("cancelled; nothing was changed", where=command("engine"),
                         next_step="run it again, and answer y, for the changes above")
