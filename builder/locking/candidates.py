"""Exactly one wheel file a package: the best for the target's tags, its size, hash and index.

The order of tags is ``packaging``'s for the cell's Python and glibc, the one that installers use;
no tag is named here, because those of vLLM's wheels differ from release to release.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from builder.errors import LockError, NetworkError, command
from builder.files import sha256_file
from builder.indexes.http import Client, Pace, SourceError, chunks, with_retries
from builder.indexes.listings import local_path
from builder.indexes.settings import DEFAULT_INDEX, FIND_LINKS, Sources
from builder.locking.lock import Lock, LockedWheel
from builder.locking.uv import ResolvedPackage, WheelCandidate
from builder.matrix.cells import Cell

OLDEST_GLIBC = {"x86_64": 5, "aarch64": 17}  # manylinux1 and manylinux2014, the first of each
MANYLINUX_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
PARALLEL = 16

KnownSizes = Mapping[tuple[str, str], int]  # (file, sha256) -> bytes


def target_tags(cell: Cell) -> dict[Tag, int]:
    """Return every tag that the cell's Python and glibc accept, with its rank (0 is best)."""
    major, minor = (int(part) for part in cell.base.python.split("."))
    platforms = list(_platforms(cell))
    interpreter = f"cp{major}{minor}"
    ordered = [*cpython_tags((major, minor), abis=[interpreter], platforms=platforms),
               *compatible_tags((major, minor), interpreter=interpreter, platforms=platforms)]
    return {tag: rank for rank, tag in reversed(list(enumerate(ordered)))}


def _platforms(cell: Cell) -> Iterator[str]:
    newest = int(cell.base.glibc.split(".")[1])
    for minor in range(newest, OLDEST_GLIBC[cell.machine] - 1, -1):
        yield f"manylinux_2_{minor}_{cell.machine}"
        if minor in MANYLINUX_NAMES:
            yield f"{MANYLINUX_NAMES[minor]}_{cell.machine}"
    yield f"linux_{cell.machine}"


def best_candidate(package: ResolvedPackage, tags: Mapping[Tag, int]) -> WheelCandidate:
    """Return the file with the best tag, of equal ones that with the higher build number."""
    def rank(candidate: WheelCandidate) -> tuple[int, int, str, str]:
        _, _, build, of_file = parse_wheel_filename(candidate.file)
        number, suffix = build or (0, "")
        return (min(tags[tag] for tag in of_file if tag in tags), -number, suffix, candidate.file)

    fitting = [candidate for candidate in package.candidates
               if not tags.keys().isdisjoint(parse_wheel_filename(candidate.file)[3])]
    if not fitting:
        raise LockError(f"{package.name} {package.version} has no wheel for the target",
                        where=package.name, next_step="choose another version in the matrix")
    return min(fitting, key=rank)


def index_name(name: str, candidate: WheelCandidate, cell: Cell, user: Sources) -> str:
    """Return the name of the index where anyone finds the wheel, not where this machine did.

    A package that one of the cell's named indexes is there for is recorded with that name, also
    when the file lay in a folder of the user's: a folder helps nobody else, and the sha256
    decides what is taken from where.
    """
    named = next((index for index, entry in cell.indexes.items() if name in entry.packages), None)
    return named or (FIND_LINKS if is_local(candidate, user) else DEFAULT_INDEX)


def is_local(candidate: WheelCandidate, user: Sources) -> bool:
    """Say whether a file lies in (or under) one of the user's folders or pages of wheels."""
    path = local_path(candidate.url)
    for link in user.find_links:
        folder = local_path(link)
        if path and folder and path.is_relative_to(folder.absolute()):
            return True
        if not folder and candidate.url.startswith(link.rpartition("/")[0]):
            return True
    return False


def known_sizes(lock: Lock) -> KnownSizes:
    """Return the sizes in a lock, by file and sha256."""
    return {(wheel.file, wheel.sha256): wheel.size for wheel in lock.wheels}


def lock_wheels(cell: Cell, closure: tuple[ResolvedPackage, ...], user: Sources,
                known: KnownSizes) -> tuple[LockedWheel, ...]:
    """Choose each package's file and complete its size and hash; raises NetworkError.

    A size that is ``known`` is not asked for again where an index gives the hash only.
    """
    tags, client = target_tags(cell), Client(user)

    def locked(package: ResolvedPackage) -> LockedWheel:
        candidate = best_candidate(package, tags)
        size, sha256 = candidate.size, candidate.sha256
        if sha256 and size is None:
            size = known.get((candidate.file, sha256))
        if sha256 is None or size is None:
            sha256, size = _measure(candidate, client)
        return LockedWheel(
            name=package.name, version=package.version, file=candidate.file, sha256=sha256,
            size=size, index=index_name(package.name, candidate, cell, user))

    with ThreadPoolExecutor(PARALLEL) as pool:
        return tuple(pool.map(locked, closure))


def _measure(candidate: WheelCandidate, client: Client) -> tuple[str, int]:
    """Return sha256 and size of a file: from disk, from its headers, or by reading it all.

    Only the last is possible where an index gives no hash (vLLM's own pages do not).
    """
    path = local_path(candidate.url)
    try:
        if path:
            return candidate.sha256 or sha256_file(path), path.stat().st_size
        return with_retries(lambda: _ask(candidate, client), Pace(), threading.Event())
    except (SourceError, OSError) as error:
        reason = error.reason if isinstance(error, SourceError) else error.strerror
        raise NetworkError(f"the size of {candidate.file} cannot be found out: its index {reason}",
                           where=candidate.file, next_step=f"run {command('lock')} again"
                           ) from error


def _ask(candidate: WheelCandidate, client: Client) -> tuple[str, int]:
    if candidate.sha256:
        with client.head(candidate.url) as reply:
            length = reply.headers.get("Content-Length", "")
            if reply.status_code == 200 and re.fullmatch(r"[0-9]{1,18}", length):
                return candidate.sha256, int(length)
    with client.get(candidate.url) as reply:
        if reply.status_code != 200:
            raise SourceError(f"answered {reply.status_code}", retry=False)
        digest, size = hashlib.sha256(), 0
        for data in chunks(reply):
            digest.update(data)
            size += len(data)
        return digest.hexdigest(), size
