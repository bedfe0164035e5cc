"""One open issue for each cell that fails: opened, brought up to date, and closed when it is good.

On GitHub by the user's own ``gh``, found again by its title; elsewhere a file in a folder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from builder import process
from builder.errors import NetworkError, UsageError
from builder.files import write_text
from builder.process import CommandError
from builder.removal import remove_file

GH_S = 120.0
LISTED = 500


class Issues(Protocol):
    """Where failures are reported."""

    def report(self, cell: str, body: str) -> str:
        """Open the cell's issue or bring it up to date; return what it is now, in words."""

    def settle(self, cell: str) -> str:
        """Close the cell's issue; return what was done, nothing where there is none."""


def title_of(cell: str) -> str:
    """Return the title by which a cell's issue is found again."""
    return f"nightly: {cell} fails"


class FolderIssues:
    """Issues as files: ``<cell>.md`` is there while the cell fails."""

    def __init__(self, folder: Path) -> None:
        """Nothing is written yet."""
        self.folder = folder

    def report(self, cell: str, body: str) -> str:
        """Write the file whole."""
        path, verb = self._path(cell), "updated"
        if not path.exists():
            verb = "opened"
        write_text(path, f"# {title_of(cell)}\n\n{body}")
        return f"{verb} {path}"

    def settle(self, cell: str) -> str:
        """Remove the file."""
        path = self._path(cell)
        if not path.exists():
            return ""
        remove_file(path, self.folder)
        return f"closed {path.name}"

    def _path(self, cell: str) -> Path:
        return self.folder / f"{cell}.md"


class GitHubIssues:
    """Issues of the repository that the checkout's remote names, by ``gh``."""

    def __init__(self) -> None:
        """Raise UsageError where gh is not there: a night is long, and would end untold."""
        if not shutil.which("gh"):
            raise UsageError("the program gh is not installed: it writes issues of GitHub",
                             where="--issues github", next_step="install it and log in: `gh auth "
                             "login`, or leave the option out: failures are then told in files")

    def report(self, cell: str, body: str) -> str:
        """Open an issue, or replace the text of the one that is open."""
        number = self._number(cell)
        if number is None:
            self._gh("issue", "create", "--title", title_of(cell), "--body-file", "-", text=body)
            return "opened an issue"
        self._gh("issue", "edit", str(number), "--body-file", "-", text=body)
        return f"updated issue {number}"

    def settle(self, cell: str) -> str:
        """Close the issue that is open."""
        number = self._number(cell)
        if number is None:
            return ""
        self._gh("issue", "close", str(number), "--comment", f"{cell} passes again.")
        return f"closed issue {number}"

    def _number(self, cell: str) -> int | None:
        """Return the number of the open issue with the cell's title, the oldest of several."""
        answer = self._gh("issue", "list", "--state", "open", "--limit", str(LISTED), "--json",
                          "number,title", "--search", f'in:title "{title_of(cell)}"')
        try:
            found = [int(one["number"]) for one in json.loads(answer)
                     if one["title"] == title_of(cell)]
        except (ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
            raise NetworkError("gh does not list the issues", where="gh issue list",
                               next_step="run `gh auth status`") from error
        return min(found, default=None)

    def _gh(self, *words: str, text: str = "") -> str:
        try:
            return process.run(["gh", *words], stdin=text.encode() if text else None,
                               timeout=GH_S).stdout
        except CommandError as error:
            raise NetworkError(f"gh could not be used: {_last(error.what.splitlines())}",
                               where=f"gh {words[0]} {words[1]}",
                               next_step="run `gh auth status`") from error


def _last(lines: Sequence[str]) -> str:
    return lines[-1] if lines else "it said nothing"
