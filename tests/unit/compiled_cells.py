"""A checkout whose one cell has a package with extensions, and a patch that changes one of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiled_extension import code, make_published, make_recipe, make_sources
from patch_wheels import diff, locked

from builder.files import sha256_file
from builder.indexes.settings import Sources, user_sources
from builder.locking.lock import load_for, lock_path, read_lock, write_lock
from builder.patches.locking import lock_patches
from builder.patches.upstream import Hosting
from builder.store.content_store import Store
from builder.workspace import Workspace, open_workspace
from tests.integration.test_build import make_workspace

ANSWER = diff("csrc/answer.c", code("_answer", 41), code("_answer", 42))


def compiled_workspace(folder: Path, monkeypatch: pytest.MonkeyPatch, *, wheels: str = '"auto"',
                       diff: bytes = ANSWER) -> Workspace:
    """Make the checkout in ``folder``, with an index of its own, and no registry."""
    made = make_workspace(folder / "work", weights=b"x")
    monkeypatch.setenv("SPARKYARD_CACHE", str(made.cache))
    monkeypatch.setenv("SPARKYARD_REGISTRY", "127.0.0.1:9/none")
    (made.root / "images/spam.diff").write_bytes(diff)
    sources, published = make_sources(folder), make_published(folder / "published")
    _index(folder, sources, published)
    monkeypatch.setattr("builder.fetch.wheels.user_sources",
                        lambda: Sources((folder / "simple").as_uri()))
    _write_recipe(made.root, sources)
    matrix = made.root / "matrix.toml"
    declare(matrix, wheels)
    workspace = open_workspace(matrix)
    cell = workspace.cells[0]
    lock = read_lock(lock_path(workspace.locks, cell))
    lock = lock.model_copy(update={"intent": cell.intent_digest, "wheels": tuple(
        sorted([*lock.wheels, locked(published)], key=lambda wheel: wheel.name))})
    Store(workspace.cache)
    write_lock(workspace.locks, lock_patches(
        cell, lock, (), workspace.root, Hosting(user_sources(), workspace.cache), workspace.cache))
    load_for(cell, workspace.locks)
    return workspace


def declare(matrix: Path, wheels: str) -> None:
    """Say in the matrix what becomes of the package, and declare its patch once."""
    lines = [line for line in matrix.read_text().splitlines() if not line.startswith("wheels =")]
    at = next(number for number, line in enumerate(lines) if line.startswith("[images."))
    lines.insert(at + 1, f"wheels = {{ spam = {wheels} }}")
    text = "\n".join(lines) + "\n"
    if "[patches.answer]" not in text:
        text += ('\n[patches.answer]\nfile = "images/spam.diff"\npackage = "spam"\n'
                 'reason = "a test"\n')
    matrix.write_text(text)


def _write_recipe(root: Path, sources: Path) -> None:
    document = make_recipe(sources).model_dump(mode="json", by_alias=True, exclude_none=True)
    (root / "wheels").mkdir(exist_ok=True)
    (root / "wheels/spam.toml").write_text("".join(
        f"{key} = {toml(value)}\n" for key, value in document.items()))


def toml(value: object) -> str:
    """Write a value of a document as TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(each)}"
                                for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def _index(folder: Path, *files: Path) -> None:
    page = folder / "simple" / "spam" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("".join(f'<a href="{path.as_uri()}#sha256={sha256_file(path)}">{path.name}</a>'
                            for path in files))
