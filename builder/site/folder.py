"""The folder of a page: made beside its place, then renamed; only a page of ours is replaced."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from builder.errors import UsageError
from builder.files import disk_errors, refuse_output, write_text
from builder.removal import remove_tree

MARKER = ".sparkyard-site"
PAGES = ("index.html", "failures.html")
FOLDERS = {"badges": ".svg", "records": ".json"}  # of the page, and the ends of what is in them
MARK = "This folder was made by `sparkyard site` and is replaced as a whole.\n"


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
    own = {folder / name for name in (MARKER, *PAGES, *FOLDERS)}
    inside = (path for name, end in FOLDERS.items() for path in (folder / name).glob("*")
              if path.suffix != end)
    found = (*(path for path in folder.iterdir() if path not in own), *inside)
    return next((str(path.relative_to(folder)) for path in sorted(found)), "")


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Replace the folder by these files: readers see all of the old page or all of the new one."""
    target = folder.absolute()
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
    for name, text in {**files, MARKER: MARK}.items():
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
