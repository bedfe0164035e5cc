"""The toolchain's image as layers: each locked wheel and all Debian packages as normalised tars.

The tars lie in the store under their digests, so a toolchain is made once, and one that differs in
a wheel shares the others' layers with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from builder import console
from builder.compile.unpacking import CUDA, TARGET, Piece, opened
from builder.errors import UsageError
from builder.files import disk_errors
from builder.locking.base_lock import LockedDeb
from builder.store.content_store import Store, StoredLayer
from builder.tarball import Chunks, Entry, File, Link, chunks_of, write_tar

FORMAT = 2  # of the layers below; a change makes them anew
DEBS = "opt/debs"
# Names under which build systems look for the one CUDA toolkit.
LINKS = (Link("opt/cuda/targets/aarch64-linux", "sbsa-linux"),
         Link(f"{CUDA}/include", "targets/sbsa-linux/include"),
         Link(f"{CUDA}/lib64", "targets/sbsa-linux/lib"))

Content = Callable[[], AbstractContextManager[Iterable[Entry]]]


@dataclass(frozen=True)
class Material:
    """What a toolchain is made of, fetched: wheels with their sha256, and Debian packages."""

    wheels: tuple[tuple[str, Piece], ...]
    debs: tuple[tuple[LockedDeb, Path], ...]

    @property
    def digest(self) -> str:
        """Return the digest of everything in it."""
        return _digest([*(f"{sha256} {piece.role}" for sha256, piece in self.wheels),
                        *(deb.sha256 for deb, _ in self.debs)])


def layers(material: Material, store: Store) -> list[StoredLayer]:
    """Return the toolchain's layers, making those that the store lacks."""
    made = [_layer(store, f"{sha256} {piece.role}", piece.path.name,
                   partial(_of_wheel, piece))
            for sha256, piece in material.wheels]
    debs = [(deb.sha256, path) for deb, path in material.debs]
    made.append(_layer(store, " ".join(sha256 for sha256, _ in debs), "Debian's packages",
                       lambda: nullcontext([_file(f"{DEBS}/{index:03d}.deb", path)
                                            for index, (_, path) in enumerate(debs)])))
    made.append(_layer(store, repr(LINKS), "links", lambda: nullcontext(LINKS)))
    return made


@contextmanager
def _of_wheel(piece: Piece) -> Iterator[Iterable[Entry]]:
    """Give the entries; a wheel that gives nothing is not what the recipe took it for."""
    with opened(piece) as found:
        if not found:
            raise UsageError(f"{piece.path.name} has nothing that a toolchain takes as "
                             f"{piece.role}", where="toolchain.requirements",
                             next_step="correct its role there, or take it out; headers go to "
                             f"/{TARGET}/include")
        yield found


def _layer(store: Store, what: str, name: str, content: Content
           ) -> StoredLayer:
    key = _digest([f"toolchain {FORMAT}", what])
    found = store.find_layer(key)
    if found is not None:
        return found
    console.debug(f"toolchain: unpacking {name}")
    with disk_errors(store.root, "while the toolchain was unpacked"), \
            store.temporary("toolchain.tar") as path:
        with content() as entries, _plain_paths(name):
            tar = write_tar(path, entries)
        return store.add_layer(key, tar.path, tar.digest, tar.size)


@contextmanager
def _plain_paths(name: str) -> Iterator[None]:
    """Name what brings a path twice, or one that may not enter an image."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{name} cannot be unpacked: {error}", where="toolchain.requirements",
                         next_step="take another version of it there") from error


def _file(place: str, path: Path) -> File:
    size = path.stat().st_size
    return File(place, size, _reader(path, size))


def _reader(path: Path, size: int) -> Chunks:
    def read() -> Iterator[bytes]:
        with path.open("rb") as stream:
            yield from chunks_of(stream, size)
    return read


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()
