"""The user's cache folder: where it is, and the mark that says it belongs to Sparkyard.

Files are removed from a cache, so a folder counts as one only when a marker file lies in it. The
marker is written when the folder is made. Any other folder that holds something is refused, with
one exception: a cache of an earlier version, which had no marker. It is recognised by its own
structure, when every name in it is one that Sparkyard gives, and marked then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from builder.errors import HostError

MARKER = ".sparkyard-cache"
MARKER_TEXT = """This folder is a cache of Sparkyard, which removes files from it (cache prune).
It can be removed as a whole: what is needed is fetched or made again. But records/ is evidence.
"""
_SHA256 = "[0-9a-f]{64}"
_TEMPORARY = r"|\..+\.tmp"  # what a killed run left of a file that it was writing
_ANY = r".+"
# What may lie directly in each folder of a cache, by folder.
STRUCTURE: Mapping[str, str] = {
    "bisect": r"[a-z0-9.-]+-[0-9a-f]{12}(\.json)?",
    "compressed": rf"{_SHA256}\.(zst|gz|json)",
    "contexts": r"sparkyard-layers-[abc]|[0-9a-f]{16}\.json",
    "debs": rf"{_SHA256}\.deb|\.fetch-[a-z0-9_]+",
    "facts": r"[0-9a-f]{16}|tmp",
    "gate": rf"{_SHA256}\.json",
    "keys": rf"{_SHA256}\.json",
    "layers": rf"{_SHA256}\.tar",
    "logs": r"[a-z0-9][a-z0-9._-]*|internal-error-\d{8}-\d{6}-[a-z0-9_]+\.txt",
    "partial": _SHA256,
    "patches": r"answers|bytes|standings",
    "records": r"[a-z0-9][a-z0-9._-]*",
    "rootfs": r"amd64|arm64|\.(amd64|arm64)\.lock|[a-z0-9._-]+\.making|image-[a-z0-9_]+",
    "serve": r"at-work",
    "services": r"dockerd\.log|registry|registry-program(\.new)?|registry\.(log|yml)",
    "stamps": rf"{_SHA256}\.json",
    "tmp": r"(tmp|work-)[a-z0-9_]{8}",
    "tools": r"[a-z0-9._-]+-[0-9a-f]{16}",
    "uploads": rf"{_SHA256}\.json",
    "vllm": _ANY,
    "wheels": _SHA256,
}
FILES = (".lock", "bases.toml", MARKER)
RECORD = re.compile(r"\d{8}T\d{6}Z-[a-z0-9]+(_\d+)?\.json|\..+\.tmp")
STORE = ("wheels", "layers", "keys", "stamps", "partial", "tmp")


def named_folder() -> Path:
    """Return the cache folder's path: ``SPARKYARD_CACHE``, else XDG's, else in ``~/.cache``."""
    named = os.environ.get("SPARKYARD_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "sparkyard"


def claim(root: Path) -> Path:
    """Return ``root`` when it is a cache of ours; make and mark it when it is missing or empty.

    A cache of an earlier version is marked, too. Raises HostError as ``checked`` does. A disk that
    cannot be written is no error here: reading works on it, and what writes will say so.
    """
    if not is_claimed(checked(root)):
        _mark(root)
    return root


def checked(root: Path) -> Path:
    """Return ``root`` when it is a cache of ours, is missing or holds nothing; changes nothing.

    Raises HostError for a folder that holds something else, and for one with links in it.
    """
    try:
        names = sorted(path.name for path in root.iterdir())
    except FileNotFoundError:
        return root
    except OSError as error:
        raise HostError(f"the cache folder cannot be used: {error.strerror}", where=str(root),
                        next_step="set SPARKYARD_CACHE to a folder of yours") from error
    links = [name for name in names if name in STRUCTURE and (root / name).is_symlink()]
    if links:
        raise HostError(f"the cache folder contains symbolic links: {', '.join(links)}",
                        where=str(root), next_step="replace each link by a real folder, or link "
                        "the whole cache folder instead")
    stranger = _stranger(root, names) if names and MARKER not in names else ""
    if stranger:
        raise HostError("this folder is not empty, and it is not a cache of Sparkyard: "
                        + stranger, where=str(root),
                        next_step="set SPARKYARD_CACHE to a new or an empty folder")
    return root


def is_claimed(root: Path) -> bool:
    """Say whether the folder is marked as a cache of ours."""
    return (root / MARKER).is_file()


def _stranger(root: Path, names: list[str]) -> str:
    """Say what shows that an unmarked folder is not a cache of an earlier version, or nothing."""
    for name in names:
        if name not in STRUCTURE and name not in FILES:
            return f"{name} is not one of its files"
        if name in STRUCTURE:
            if not (root / name).is_dir():
                return f"{name} is not a folder"
            allowed = re.compile(STRUCTURE[name] + _TEMPORARY)
            for inner in (root / name).iterdir():
                if not allowed.fullmatch(inner.name):
                    return f"{name}/{inner.name} is not one of its files"
    return "" if _is_proof(root, set(names)) else "nothing in it shows that Sparkyard made it"


def _is_proof(root: Path, names: set[str]) -> bool:
    """Say whether the names, all of which may be ours, could hardly be anybody else's."""
    records = [path.name for path in (root / "records").glob("*/*")]
    return bool({*STORE, ".lock"} <= names or names == {"services"}
                or any((root / "debs").glob("*"))
                or (records and all(map(RECORD.fullmatch, records))))


def _mark(root: Path) -> None:
    # Not through a temporary file: another process would find that one in an unmarked folder.
    try:
        root.mkdir(parents=True, exist_ok=True)
        (root / MARKER).write_text(MARKER_TEXT, encoding="utf-8")
    except OSError:
        return
