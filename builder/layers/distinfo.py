"""``.dist-info`` as an installer leaves it: RECORD, INSTALLER and REQUESTED.

RECORD (https://packaging.python.org/en/latest/specifications/recording-installed-packages/)
names every file that the wheel put into the image, with scripts, data and bytecode, relative to
site-packages. ``pip check``, ``pip list`` and ``importlib.metadata.files`` read it.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import posixpath
from collections.abc import Iterable, Iterator, Mapping

from installer.records import parse_record_file

from builder.layers.wheel_contents import Layout, Placed, WheelContents
from builder.tarball import File, content, in_memory

INSTALLER = "sparkyard"
_OURS = ("INSTALLER", "RECORD", "REQUESTED")  # an installer's, whatever the wheel brings

Row = tuple[str, str, str]  # path relative to site-packages, ``sha256=…``, size


def fingerprint(parts: Iterable[bytes]) -> str:
    """Return the hash of a file as RECORD writes it."""
    state = hashlib.sha256()
    for part in parts:
        state.update(part)
    return "sha256=" + base64.urlsafe_b64encode(state.digest()).decode().rstrip("=")


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
