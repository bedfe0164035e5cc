"""``.dist-info`` as an installer leaves it: RECORD, INSTALLER and REQUESTED.

RECORD (https://packaging.python.org/en/latest/specifications/recording-installed-packages/)
names every file that the wheel put into the image, with scripts, data and bytecode, relative to
site-packages. ``pip check``, ``pip list`` and ``importlib.metadata.files`` read it. It also tells
which files two wheels bring: harmless when they are equal, worth a warning when they are not.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from installer.records import parse_record_file

from builder.errors import UsageError
from builder.layers.wheel_contents import Layout, Placed, WheelContents
from builder.tarball import File, content, in_memory, parents

INSTALLER = "sparkyard"
_OURS = ("INSTALLER", "RECORD", "REQUESTED")  # an installer's, whatever the wheel brings

Row = tuple[str, str, str]  # path relative to site-packages, ``sha256=…``, size


def fingerprint(parts: Iterable[bytes]) -> str:
    """Return the hash of a file as RECORD writes it."""
    state = hashlib.sha256()
    for part in parts:
        state.update(part)
    return hash_text(state.digest())


def hash_text(sha256: bytes) -> str:
    """Return a digest as RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(sha256).decode().rstrip("=")


def is_metadata(path: str, contents: WheelContents, layout: Layout) -> bool:
    """Say whether a path in the image lies in the wheel's own ``.dist-info``."""
    return path.startswith(f"{layout.site}/{contents.dist_info}/")


def metadata_files(contents: WheelContents, bytecode: Mapping[str, File], layout: Layout
                   ) -> list[File]:
    """Return the files of ``.dist-info``, complete but for what depends on who asked for it.

    ``bytecode`` are the compiled modules by path. Hashes of files that are placed as they came
    are the wheel's own, as with pip: the wheel as a whole has been checked against the lock.
    """
    folder = f"{layout.site}/{contents.dist_info}"
    skipped = {f"{folder}/{name}" for name in _OURS}
    installer = in_memory(f"{folder}/INSTALLER", f"{INSTALLER}\n".encode())
    claimed = {row[0]: (row[1], row[2]) for row in parse_record_file(contents.record.splitlines())}
    placed = [item for item in contents.files if item.file.path not in skipped]
    rows = [_row(item, claimed, layout) for item in placed]
    rows += [computed_row(file, layout) for file in (*bytecode.values(), installer)]
    files = [item.file for item in placed if is_metadata(item.file.path, contents, layout)]
    return [*files, installer, in_memory(f"{folder}/RECORD", render(rows, contents.dist_info))]


def _row(item: Placed, claimed: Mapping[str, tuple[str, str]], layout: Layout) -> Row:
    digest, size = claimed.get(item.origin, ("", ""))
    if item.library and digest.startswith("sha256=") and size == str(item.file.size):
        return relative(item.file.path, layout), digest, size
    return computed_row(item.file, layout)


def computed_row(file: File, layout: Layout) -> Row:
    """Return the row of a file by reading it."""
    return relative(file.path, layout), fingerprint(file.read()), str(file.size)


def relative(path: str, layout: Layout) -> str:
    """Return a path of the image as RECORD names it: relative to site-packages."""
    if path.startswith(f"{layout.site}/"):
        return path.removeprefix(f"{layout.site}/")
    return posixpath.relpath(path, layout.site)


def render(rows: Iterable[Row], dist_info: str) -> bytes:
    """Write RECORD: sorted, and its own row without hash."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(
        sorted([*rows, (f"{dist_info}/RECORD", "", "")]))
    return text.getvalue().encode()


def parse(record: bytes) -> list[Row]:
    """Read the rows of a RECORD that ``render`` wrote."""
    return [(row[0], row[1], row[2]) for row in csv.reader(record.decode().splitlines())]


def installed(metadata: Iterable[File], layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield path in the image and hash of all that a wheel installed outside its metadata."""
    record, folder = _record_of(metadata)
    for path, digest, _ in parse(content(record)):
        if not path.startswith(f"{folder}/"):
            yield posixpath.normpath(f"{layout.site}/{path}"), digest


def requested(metadata: Iterable[File], layout: Layout) -> list[File]:
    """Return the metadata of a wheel that was asked for by name, not by another wheel."""
    files = list(metadata)
    record, folder = _record_of(files)
    marker = in_memory(f"{layout.site}/{folder}/REQUESTED", b"")
    rows = [row for row in parse(content(record)) if row[1]]
    text = render([*rows, computed_row(marker, layout)], folder)
    return [*(file for file in files if file is not record), marker, in_memory(record.path, text)]


def _record_of(metadata: Iterable[File]) -> tuple[File, str]:
    """Find RECORD, and the name of the folder that it is in."""
    record = next(file for file in metadata if file.path.endswith(".dist-info/RECORD"))
    return record, record.path.split("/")[-2]


@dataclass(frozen=True)
class Collision:
    """One path that several wheels write with different bytes; the last of ``wheels`` wins."""

    path: str
    wheels: tuple[str, ...]

    @property
    def line(self) -> str:
        """Return the collision in one line for people."""
        return (f"/{self.path} is brought by {', '.join(self.wheels)} with different contents; "
                f"{self.wheels[-1]}'s is in the image")


def find_collisions(metadata: Mapping[str, Sequence[File]], layout: Layout) -> list[Collision]:
    """Return the differing files of all wheels (name -> metadata files, by name), by path.

    Raises UsageError where one wheel has a file in the place of another's folder.
    """
    seen: dict[str, list[tuple[str, str]]] = {}
    for name, files in metadata.items():
        for path, digest in installed(files, layout):
            seen.setdefault(path, []).append((name, digest))
    _refuse_file_as_folder(seen)
    return [Collision(path, tuple(name for name, _ in claims))
            for path, claims in sorted(seen.items()) if len({digest for _, digest in claims}) > 1]


def owners(metadata: Mapping[str, Sequence[File]], layout: Layout) -> dict[str, str]:
    """Return for each path the wheel whose bytes are in the image: the last by name."""
    return {path: name for name, files in metadata.items() for path, _ in installed(files, layout)}


def _refuse_file_as_folder(seen: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    folders = {folder: path for path in seen for folder in parents(path)}
    for path in sorted(folders.keys() & seen.keys()):
        below = folders[path]
        raise UsageError(
            f"/{path} is a file in {seen[path][0][0]} and a folder in {seen[below][0][0]}",
            where=f"{seen[path][0][0]}, {seen[below][0][0]}",
            next_step="one of the two wheels must be left out or locked at another version")
