"""One resolution by uv, for the cell's platform on any host: requirements in, exact files out.

uv is given a project of its own in a temporary folder, because only there can a package be bound
to a named index (``tool.uv.sources``); that binding holds for direct dependencies only, so the
caller names further packages as direct ones where the closure turns out to hold them. Nothing is
built, no Python is downloaded, and uv's and pip's further indexes take no part: uv takes a package
from the first index that has it, so a mirror with one other torch would hide all the rest, and
a lock must not depend on whose machine made it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import tomli
import uv
from packaging.utils import canonicalize_name

from builder.indexes.listings import local_path
from builder.indexes.settings import NO_USER_INDEXES, Sources
from builder.locking.lock import Lock
from builder.matrix.cells import Cell
from builder.matrix.models import Index
from builder.process import Result, run

NO_SOLUTION = 1  # uv's exit code where the requirements contradict each other; 2 is any failure
PROJECT = "sparkyard-cell"  # what uv calls the project whose requirements are the matrix's
ALL = "*"  # "--upgrade" of everything


@dataclass(frozen=True)
class WheelCandidate:
    """One wheel file that fits the target; ``sha256`` and ``size`` where the index says them."""

    url: str
    sha256: str | None
    size: int | None

    @property
    def file(self) -> str:
        """Return the file name, as it stands in the address."""
        return unquote(urlsplit(self.url).path.rpartition("/")[2])


@dataclass(frozen=True)
class ResolvedPackage:
    """One package of a closure: its exact version and every file of it that fits."""

    name: str
    version: str
    candidates: tuple[WheelCandidate, ...]


class UvError(Exception):
    """uv ended without a closure: ``unsolvable``, or it could not do its work; its own words."""

    def __init__(self, result: Result) -> None:
        """Keep uv's standard error, the only place where it gives its reason."""
        super().__init__(result.stderr)
        self.unsolvable = result.returncode == NO_SOLUTION
        self.words = result.stderr.strip()


@dataclass(frozen=True)
class ResolutionRequest:
    """What uv is asked: a cell, the named indexes to use, and the versions to keep.

    ``bound`` maps packages to the index that they must come from; ``previous`` is the lock whose
    versions are kept where they still fit, but for those in ``upgrade`` (``*``: none is kept).
    """

    cell: Cell
    indexes: Mapping[str, Index]
    bound: Mapping[str, str]
    previous: Lock | None = None
    upgrade: tuple[str, ...] = ()

    @property
    def requirements(self) -> tuple[str, ...]:
        """Return the cell's requirements and the bound packages, each as a direct requirement."""
        return tuple(dict.fromkeys((*self.cell.requirements, *self.bound)))


def run_resolver(request: ResolutionRequest, user: Sources) -> tuple[ResolvedPackage, ...]:
    """Return the closure that uv finds; raises UvError with its words."""
    with tempfile.TemporaryDirectory(prefix="sparkyard-lock-") as name:
        folder = Path(name)
        (folder / "pyproject.toml").write_text(project(request), encoding="utf-8")
        (folder / "overrides.txt").write_text("\n".join(overrides(request.cell)),
                                              encoding="utf-8")
        if request.previous and ALL not in request.upgrade:
            (folder / "pylock.toml").write_text(preferences(request.previous), encoding="utf-8")
        result = run(_command(request), env=user_environment(user), cwd=folder, check=False)
        if result.returncode != 0:
            raise UvError(result)
        return read_pylock((folder / "pylock.toml").read_text(encoding="utf-8"))


def project(request: ResolutionRequest) -> str:
    """Write the request as the ``pyproject.toml`` that uv compiles."""
    quote = json.dumps
    lines = ["[project]", f"name = {quote(PROJECT)}", 'version = "0"',
             f"requires-python = {quote('>=' + request.cell.base.python)}",
             f"dependencies = {quote(list(request.requirements))}"]
    for name, index in request.indexes.items():
        lines += ["[[tool.uv.index]]", f"name = {quote(name)}", f"url = {quote(index.url)}",
                  "explicit = true"]  # asked for the packages bound to it, and for nothing else
    lines += ["[tool.uv.sources]"]
    lines += [f"{package} = {{ index = {quote(index)} }}"
              for package, index in request.bound.items()]
    return "\n".join([*lines, ""])


def overrides(cell: Cell) -> list[str]:
    """Return the cell's overrides; what is to be left out gets a condition that never holds."""
    return [*cell.overrides, *(f'{name} ; sys_platform == "never"' for name in cell.leave_out)]


def preferences(previous: Lock) -> str:
    """Write a lock's versions as the file that uv finds in the place of its output."""
    lines = ['lock-version = "1.0"', 'created-by = "sparkyard"']
    for wheel in previous.wheels:
        lines += ["[[packages]]", f"name = {json.dumps(wheel.name)}",
                  f"version = {json.dumps(wheel.version)}"]
    return "\n".join([*lines, ""])


def read_pylock(text: str) -> tuple[ResolvedPackage, ...]:
    """Read the packages of a ``pylock.toml``; none of its addresses is ever written down.

    https://packaging.python.org/en/latest/specifications/pylock-toml/
    """
    return tuple(
        ResolvedPackage(canonicalize_name(package["name"]), package["version"],
               tuple(_candidate(wheel) for wheel in package.get("wheels", ())))
        for package in tomli.loads(text).get("packages", ()))


def _candidate(wheel: Mapping[str, Any]) -> WheelCandidate:
    url = wheel.get("url") or Path(wheel["path"]).absolute().as_uri()
    return WheelCandidate(url, wheel.get("hashes", {}).get("sha256"), wheel.get("size"))


def _command(request: ResolutionRequest) -> Sequence[str | Path]:
    upgrade = [word for package in request.upgrade if package != ALL
               for word in ("--upgrade-package", package)]
    return [
        uv.find_uv_bin(), "pip", "compile", "pyproject.toml", "--override", "overrides.txt",
        "--format", "pylock.toml", "--output-file", "pylock.toml", *upgrade,
        "--python", sys.executable, "--python-version", request.cell.base.python,
        "--python-platform", platform(request.cell), "--only-binary", ":all:",
        "--no-config", "--no-progress", "--color", "never",
    ]


def platform(cell: Cell) -> str:
    """Return uv's name of the cell's platform: ``aarch64-manylinux_2_36``."""
    return f"{cell.machine}-manylinux_{cell.base.glibc.replace('.', '_')}"


def user_environment(user: Sources) -> dict[str, str]:
    """Hand the sources over in the environment, since a command line is shown by ``-v``."""
    folders = [str(path.absolute()) if (path := local_path(link)) else link
               for link in user.find_links]
    named = {"UV_DEFAULT_INDEX": user.default_index, "UV_FIND_LINKS": ",".join(folders),
             "UV_PYTHON_DOWNLOADS": "never"}
    if user.cert:
        named["SSL_CERT_FILE"] = user.cert
    if user.proxy:
        named |= {"HTTP_PROXY": user.proxy, "HTTPS_PROXY": user.proxy}
    return {**NO_USER_INDEXES, **named}
