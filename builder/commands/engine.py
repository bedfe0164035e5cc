"""``sparkyard engine``: a Docker engine with buildx, arm64 and a registry, where one is missing."""

from __future__ import annotations

import argparse
import os
import sys

from builder import console
from builder.errors import SparkyardError, UsageError
from builder.host.plan import Step, plan
from builder.host.setup import detect, perform, summary
from builder.matrix.load import load_matrix
from builder.workspace import cache_folder

DEFAULT_REGISTRY = "127.0.0.1:5000/sparkyard"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "engine", help="bring up a Docker engine, buildx, arm64 emulation and a local registry",
        description=__doc__)
    parser.add_argument("--yes", action="store_true", help="do it without asking")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Say what is missing, do it, show what is there."""
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
    named = os.environ.get("SPARKYARD_REGISTRY")
    if named:
        return named
    try:
        return load_matrix(options.matrix).registry
    except SparkyardError:
        return DEFAULT_REGISTRY


def _announce(steps: tuple[Step, ...]) -> None:
    if not steps:
        console.info("nothing to do: everything answers")
        return
    console.info("to be done on this machine:")
    for number, step in enumerate(steps, 1):
        console.info(f"  {number}. {step.title}")


def _consent(*, yes: bool) -> None:
    """Go on only with the user's word; raises UsageError where nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody is here to agree to these steps", where="sparkyard engine",
                         next_step="add --yes")
    console.info("go on? [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was done", where="sparkyard engine")
