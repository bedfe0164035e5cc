"""A static package index of compiled wheels, from which unmodified pip and uv install.

``simple/`` has the pages of the simple API (PEP 503 as HTML, PEP 691 as JSON beside it), with the
sha256 of every file; ``files/`` has the wheels, each with its METADATA (PEP 658 and 714), so that
a resolver need not fetch gigabytes. Any web server serves it. An index grows: what it has stays,
since an older lock may name it, and a file name never gets other bytes. Pages are written last, so
a run that is killed leaves the index as it was.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import shutil
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from urllib.parse import quote

from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from builder.errors import IntegrityError, UsageError
from builder.files import (
    ZIP_FAULTS,
    disk_errors,
    refuse_output,
    require_space,
    sha256_file,
    write_bytes,
    write_text,
)
from builder.limits import MB, MODULE_BYTES, read_file
from builder.patches.wheel import info_of
from builder.removal import remove_file
from builder.text import one_line

MARKER = ".sparkyard-index"
MARK = "A package index of Sparkyard: `sparkyard wheels index` adds to it and removes nothing.\n"
PAGES, FILES = "simple", "files"
API = "1.1"
SHOWN = 200  # characters of foreign text


@dataclass(frozen=True)
class Offered:
    """One file of the index, as its project's page lists it."""

    name: str
    version: str
    file: str
    sha256: str
    size: int
    metadata_sha256: str
    requires_python: str

    @property
    def url(self) -> str:
        """Return the file's address relative to its project's page."""
        return f"../../{FILES}/{quote(self.file)}"


def check_folder(folder: Path, protected: Path) -> None:
    """Raise UsageError where no index may be written; call it before long work."""
    if folder.absolute().resolve().is_relative_to(protected.resolve()):
        raise _refused(folder, "it lies in the cache folder")
    if not folder.is_dir() or folder.is_symlink():
        refuse_output(folder)
        if folder.exists():
            raise _refused(folder, "it is a file")
    elif any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise _refused(folder, "it holds files that are not an index of Sparkyard")


def write_index(folder: Path, wheels: Sequence[Path]) -> dict[str, list[Offered]]:
    """Add wheels to the index in ``folder``; return all that it offers, by project.

    Raises IntegrityError where the index has another file of that name, DiskError.
    """
    files = folder / FILES
    missing = [wheel for wheel in wheels if not (files / wheel.name).exists()]
    require_space(folder, sum(wheel.stat().st_size for wheel in missing), "for the index")
    try:
        with disk_errors(folder, "while the index was written"):
            files.mkdir(parents=True, exist_ok=True)
            write_text(folder / MARKER, MARK)
            for wheel in wheels:
                _add(wheel, files)
            projects = _projects(files)
            _write_pages(folder / PAGES, projects)
    except PermissionError as error:
        raise _refused(folder, error.strerror or "this user may not write there") from error
    return projects


def _add(wheel: Path, files: Path) -> None:
    """Copy one wheel under its name in one step; its metadata first, then the wheel itself."""
    target = files / wheel.name
    if target.exists():
        if sha256_file(target) != (actual := sha256_file(wheel)):
            raise IntegrityError(str(target), expected=actual, actual=sha256_file(target),
                                 next_step="write the index into another folder: a file name must "
                                 "never get other bytes")
        return
    write_bytes(files / f"{wheel.name}.metadata", _metadata(wheel))
    temporary = files / f".{wheel.name}.{os.getpid()}.tmp"
    try:
        shutil.copyfile(wheel, temporary)
        temporary.replace(target)
    finally:
        remove_file(temporary, files)


def _metadata(wheel: Path) -> bytes:
    """Return a wheel's METADATA; raises UsageError for a wheel that the pages could not list."""
    try:
        with zipfile.ZipFile(wheel) as archive, \
                archive.open(f"{info_of(archive, wheel.name)}/METADATA") as stream:
            data = stream.read(MODULE_BYTES + 1)
        if len(data) > MODULE_BYTES:
            raise ValueError(f"its metadata is larger than {MODULE_BYTES // MB} MB")
        _headers(wheel.name, data)
    except (OSError, *ZIP_FAULTS) as error:
        raise UsageError(f"a wheel cannot be offered: {one_line(str(error), SHOWN)}",
                         where=str(wheel), next_step="leave it out, or compile it again"
                         ) from error
    return data


def _headers(file: str, metadata: bytes) -> Message:
    """Return the fields of a wheel's metadata; ValueError where they are not of its file name.

    Its own name becomes a folder and a link of the pages, so it must be what the file's name says.
    """
    headers = HeaderParser().parsestr(metadata.decode("utf-8", "replace"))
    name, version, _, _ = parse_wheel_filename(file)
    if (str(canonicalize_name(str(headers["Name"]))) != name
            or Version(str(headers["Version"])) != version):
        raise ValueError("its metadata is that of another name or version")
    return headers


def _projects(files: Path) -> dict[str, list[Offered]]:
    """Return all files by project, sorted by version."""
    found: dict[str, list[Offered]] = {}
    for path in sorted(files.glob("*.whl")):
        if not path.name.startswith("."):
            entry = _offered(path)
            found.setdefault(entry.name, []).append(entry)
    return {name: sorted(entries, key=lambda entry: (Version(entry.version), entry.file))
            for name, entries in sorted(found.items())}


def _offered(path: Path) -> Offered:
    """Read one file of the index; raises UsageError for one that is not a wheel of that name."""
    try:
        metadata = read_file(path.with_name(f"{path.name}.metadata"), MODULE_BYTES, "metadata")
        headers = _headers(path.name, metadata)
    except (OSError, ValueError) as error:
        raise _no_wheel(path, one_line(str(error), SHOWN)) from error
    name = str(canonicalize_name(str(headers["Name"])))
    return Offered(name, str(headers["Version"]), path.name, sha256_file(path),
                   path.stat().st_size, hashlib.sha256(metadata).hexdigest(),
                   one_line(str(headers.get("Requires-Python", "")), SHOWN))


def _write_pages(pages: Path, projects: Mapping[str, Sequence[Offered]]) -> None:
    for name, entries in projects.items():
        write_text(pages / name / "index.html", _page(f"Links for {name}", map(_anchor, entries)))
        write_text(pages / name / "index.json", _json({
            "name": name, "versions": list(dict.fromkeys(entry.version for entry in entries)),
            "files": [_as_json(entry) for entry in entries]}))
    anchors = (f'<a href="{name}/">{name}</a>' for name in projects)
    write_text(pages / "index.html", _page("Simple index", anchors))
    write_text(pages / "index.json", _json({"projects": [{"name": name} for name in projects]}))


def _page(title: str, anchors: Iterable[str]) -> str:
    lines = [f"{anchor}<br>" for anchor in anchors]
    return "\n".join([
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        f'<meta name="pypi:repository-version" content="{API}">',
        f"<title>{html.escape(title)}</title>", "</head>", "<body>", *lines, "</body>", "</html>",
        ""])


def _anchor(entry: Offered) -> str:
    attributes = {"href": f"{entry.url}#sha256={entry.sha256}",
                  "data-core-metadata": f"sha256={entry.metadata_sha256}",
                  "data-dist-info-metadata": f"sha256={entry.metadata_sha256}"}
    if entry.requires_python:
        attributes["data-requires-python"] = entry.requires_python
    text = " ".join(f'{key}="{html.escape(value)}"' for key, value in attributes.items())
    return f"<a {text}>{html.escape(entry.file)}</a>"


def _as_json(entry: Offered) -> dict[str, object]:
    metadata = {"sha256": entry.metadata_sha256}
    return {"filename": entry.file, "url": entry.url, "hashes": {"sha256": entry.sha256},
            "size": entry.size, "core-metadata": metadata, "dist-info-metadata": metadata,
            **({"requires-python": entry.requires_python} if entry.requires_python else {})}


def _json(value: Mapping[str, object]) -> str:
    return json.dumps({"meta": {"api-version": API}, **value}, indent=1) + "\n"


def _no_wheel(path: Path, problem: str) -> UsageError:
    return UsageError(f"a file of the index is not a wheel that can be offered: {problem}",
                      where=str(path), next_step="take it and its .metadata out of the index")


def _refused(folder: Path, problem: str) -> UsageError:
    return UsageError(f"the index cannot be written: {problem}", where=str(folder),
                      next_step="name a new or empty folder, or an earlier index: --output DIR")
