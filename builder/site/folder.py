"""The folder of a page: made beside its place, then renamed; only a page of ours is replaced."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from builder.errors import UsageError
from builder.files import disk_errors, refuse_output, write_text
from builder.limits import SETTINGS_BYTES, read_file
from builder.removal import remove_tree

MARKER = ".sparkyard-site"
FOLDERS = ("badges", "records")
# The files of a page that was made before a page's marker listed them.
EARLIER = re.compile(r"\.sparkyard-site|index\.html|failures\.html|records/[0-9a-f]{16}\.json"
                     r"|badges/[a-z0-9][a-z0-9._-]*\.svg")
MARK = "This folder was made by `sparkyard site` and is replaced as a whole. Its files:\n"


def check_folder(folder: Path, protected: Path) -> None:
    """Raise UsageError where a page must not be written; call it before long work."""
    real = folder.absolute().resolve()
    if real.is_relative_to(protected.resolve()):
        raise _refused(folder, "it lies in the cache folder")
    if folder.is_symlink() or not folder.is_dir():
        refuse_output(folder)
        if folder.exists():
            raise _refused(folder, "it is a file")
        return
    if not (folder / MARKER).is_file() and any(folder.iterdir()):
        raise _refused(folder, "it holds files that are not a page of Sparkyard")
    if strange := _strange(folder):
        raise _refused(folder, f"it holds what is not of a page of Sparkyard: {strange}")
    refuse_output(folder.absolute().parent / f".{folder.name}.new")


def _strange(folder: Path) -> str:
    """Return what somebody else put into a page's folder, such as a ``.git``; it would be lost."""
    written = _written(folder)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        plain = not path.is_symlink()
        if not ((plain and path.is_dir() and name in FOLDERS)
                or (plain and path.is_file() and written(name))):
            return name
    return ""


def _written(folder: Path) -> Callable[[str], object]:
    """Return what says whether a page has a file: its own list; an earlier page has none."""
    try:
        text = read_file(folder / MARKER, SETTINGS_BYTES, "list of a page's files").decode()
    except (OSError, ValueError):
        text = ""
    listed = {MARKER, *text.splitlines()[1:]}
    return listed.__contains__ if len(listed) > 1 else EARLIER.fullmatch


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Replace the folder by these files: readers see all of the old page or all of the new one."""
    target = folder.absolute()
    if target.is_dir() and (strange := _strange(target)):  # put there since it was checked
        raise _refused(folder, f"it holds what is not of a page of Sparkyard: {strange}")
    try:
        with disk_errors(target.parent, "the page"):
            fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            try:
                _fill(fresh, files)
                _exchange(fresh, target)
            finally:
                remove_tree(fresh, target.parent)
    except OSError as error:
        raise _refused(folder, error.strerror or "it cannot be made") from error


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    folder.chmod(0o755)
    mark = MARK + "".join(f"{name}\n" for name in sorted(files))
    for name, text in {**files, MARKER: mark}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        write_text(path, text)
        path.chmod(0o644)


def _exchange(fresh: Path, target: Path) -> None:
    """Put the new folder in the old one's place; where that fails, the old one is put back."""
    if not target.exists():
        fresh.rename(target)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    target.replace(aside)  # onto an empty folder: one step
    try:
        fresh.replace(target)
    except OSError:
        aside.replace(target)
        raise
    remove_tree(aside, target.parent)


def _refused(folder: Path, problem: str) -> UsageError:
    return UsageError(f"the page cannot be written: {problem}", where=str(folder),
                      next_step="name a new or empty folder, or an earlier page: --output DIR")
