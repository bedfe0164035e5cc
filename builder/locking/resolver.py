"""A cell and the indexes into exact wheels; the only stage that asks what is newest.

``resolve`` reads as the work is done: which indexes answer, what uv finds, which file of each
package, how large it is, and whether the result may be called a lock at all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from builder.errors import LockError, NetworkError, command
from builder.indexes.http import Client, Pace, SourceError, body, with_retries
from builder.indexes.listings import local_path
from builder.indexes.settings import DEFAULT_INDEX, Sources
from builder.indexes.simple_api import ACCEPT, lists_files
from builder.locking.candidates import (
    KnownSizes,
    best_candidate,
    is_local,
    lock_wheels,
    target_tags,
)
from builder.locking.explanations import plain, range_keys, unsolvable
from builder.locking.lock import Lock
from builder.locking.uv import ResolutionRequest, ResolvedPackage, UvError, platform, run_resolver
from builder.locking.version_checks import check_versions
from builder.matrix.cells import Cell

MAX_ROUNDS = 5  # a bound package may bring another one that has to be bound
OK = 200
PROBE = Pace(attempts=2)


def resolve(cell: Cell, user: Sources, previous: Lock | None = None,
            upgrade: tuple[str, ...] = (), sizes: KnownSizes = MappingProxyType({})) -> Lock:
    """Return the lock of ``cell``; ``previous`` is the one whose versions are kept.

    ``sizes`` are those of a lock that can be believed: nobody edited it.

    Raises LockError when no closure meets the matrix's requirements, or when it is one that
    must not be built; NetworkError naming the index that did not answer.
    """
    unreachable = unreachable_indexes(cell, user)
    closure = _closure(cell, user, frozenset(unreachable), previous, upgrade)
    _refuse_other_sources(cell, closure, user, unreachable)
    lock = Lock(
        cell=cell.id, intent=cell.intent_digest, python=cell.base.python, platform=platform(cell),
        overrides=cell.overrides, wheels=lock_wheels(cell, closure, user, sizes))
    require_good(cell, lock)
    return lock


def require_good(cell: Cell, lock: Lock) -> None:
    """Raise LockError with everything that the versions say against building the cell."""
    block = cell.blocked_with({wheel.name: wheel.version for wheel in lock.wheels})
    if block is not None and cell.blocked is None:
        raise LockError(f"what was found for {cell.id} is blocked: {block.reason} ({block.link})",
                        where=", ".join(range_keys(cell)),
                        next_step="leave the blocked version out of the range there, with !=")
    findings = check_versions(cell, lock)
    if findings:
        lines = "\n".join(f"  {finding}" for finding in findings)
        raise LockError(f"what was found for {cell.id} must not be built:\n{lines}",
                        where=f"images.{cell.image}", next_step="change the matrix as named above")


def unreachable_indexes(cell: Cell, user: Sources) -> dict[str, str]:
    """Return the cell's named indexes that do not answer, each with the reason.

    Raises NetworkError when one of them is needed, since no folder of the user's has a wheel of
    its packages. uv would ask long and often, and call the package missing.
    """
    client = Client(user)
    unreachable = {name: reason for name, index in cell.indexes.items()
              if (reason := _failure_of(client, f"{index.url.rstrip('/')}/{index.packages[0]}/"))}
    for name, reason in unreachable.items():
        if not _may_be_in_folders(cell.indexes[name].packages, user):
            raise _not_answering(cell, name, reason)
    return unreachable


def _failure_of(client: Client, page: str) -> str | None:
    """Return why ``page`` cannot be had, None when an index answers (also "not here")."""
    if local_path(page):
        return None
    try:
        with_retries(lambda: _require_index(client, page), PROBE, threading.Event())
    except SourceError as error:
        return error.reason
    return None


def _require_index(client: Client, page: str) -> None:
    """Raise SourceError where ``page`` is there, but is none that an index would give."""
    reply = client.get(page, accept=ACCEPT)
    if reply.status_code != OK:
        reply.close()
    elif not lists_files(body(reply), reply.headers.get("Content-Type", ""), reply.url):
        raise SourceError("answered with something else than a package index's page (a login or "
                          "a proxy's page?)", retry=False)


def _may_be_in_folders(packages: tuple[str, ...], user: Sources) -> bool:
    """Say whether the user's folders may have wheels of ``packages``; a page is not read here."""
    for link in user.find_links:
        folder = local_path(link)
        if folder is None or any(name in packages for name in _names(folder)):
            return True
    return False


def _names(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.whl")):
        try:
            yield parse_wheel_filename(path.name)[0]
        except InvalidWheelFilename:
            continue


def _closure(cell: Cell, user: Sources, unreachable: frozenset[str], previous: Lock | None,
             upgrade: tuple[str, ...]) -> tuple[ResolvedPackage, ...]:
    """Ask uv until every package that has a named index is bound to it (usually once)."""
    indexes = {name: index for name, index in cell.indexes.items() if name not in unreachable}
    owners = {package: name for name in reversed(indexes) for package in indexes[name].packages}
    direct = {canonicalize_name(Requirement(text).name) for text in cell.requirements}
    bound = {package: index for package, index in owners.items() if package in direct}
    for _ in range(MAX_ROUNDS):
        request = ResolutionRequest(cell, indexes, bound, previous, upgrade)
        try:
            closure = run_resolver(request, user)
        except UvError as failed:
            raise _explained(failed, cell, user) from failed
        more = {package.name: owners[package.name] for package in closure
                if package.name in owners and package.name not in bound}
        if not more:
            return closure
        bound |= more
    raise LockError(f"{cell.id}: no stable choice of indexes after {MAX_ROUNDS} resolutions",
                    where=f"images.{cell.image}.indexes", next_step="name the packages in requires")


def _explained(failed: UvError, cell: Cell, user: Sources) -> LockError | NetworkError:
    """Tell an index that does not answer from requirements that cannot be met."""
    reason = _failure_of(Client(user), f"{user.default_index.rstrip('/')}/pip/")
    if reason:
        return _not_answering(cell, DEFAULT_INDEX, reason)
    if failed.unsolvable:
        return unsolvable(failed.words, cell, user)
    return NetworkError(f"{cell.id} was not resolved: {plain(failed.words, cell, user)}",
                        where=f"images.{cell.image}", next_step=f"run {command('lock')} again")


def _refuse_other_sources(cell: Cell, closure: tuple[ResolvedPackage, ...], user: Sources,
                         unreachable: Mapping[str, str]) -> None:
    """Raise NetworkError when a package of a unreachable index came from anywhere but a folder.

    Another index has other builds under the same name: the CPU torch in a CUDA image.
    """
    tags = target_tags(cell)
    for package in closure:
        for name, reason in unreachable.items():
            if package.name in cell.indexes[name].packages and not is_local(
                    best_candidate(package, tags), user):
                raise _not_answering(cell, name, reason)


def _not_answering(cell: Cell, index: str, reason: str) -> NetworkError:
    packages = cell.indexes[index].packages if index in cell.indexes else ()
    what = f", which has its {', '.join(packages)}" if packages else ""
    where = f"indexes.{index}" if index in cell.indexes else f"the {index} index of uv or pip"
    return NetworkError(f'{cell.id} needs the index "{index}"{what}: {reason}', where=where,
                        next_step=f"run {command('lock', cell.id)} where that index can be reached")
