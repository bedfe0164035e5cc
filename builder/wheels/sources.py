"""Source archives of recipes, from the package index or a commit into the store, by sha256."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from builder.fetch.commits import CommitSource, fetch_commit
from builder.fetch.wheels import fetch_lock
from builder.indexes.settings import DEFAULT_INDEX
from builder.locking.lock import Lock, LockedWheel
from builder.matrix.models import Index
from builder.store.content_store import Store
from builder.wheels.recipe import Recipe, SourceFile


class Archive(LockedWheel):
    """A source archive, which the store and the fetcher treat as they treat a wheel.

    Without ``commit`` it is on the package index, otherwise it is made of the commit's files.
    """

    file: Annotated[str, Field(pattern=r"^[\w.+!-]+\.tar(\.gz)?$")]
    index: str = DEFAULT_INDEX
    commit: CommitSource | None = None


def source_archive(recipe: Recipe, version: str) -> Archive:
    """Return the archive of a version's sources."""
    source = recipe.sources[version]
    commit = CommitSource(source.git.repository, source.git.commit) if source.git else None
    return _archive(recipe.name, version, source, commit)


def external_archives(recipe: Recipe) -> dict[str, Archive]:
    """Return the archives that hold external projects, by the name of the project."""
    return {name: _archive(each.package, "0", each) for name, each in recipe.external.items()}


def _archive(name: str, version: str, file: SourceFile, commit: CommitSource | None = None
             ) -> Archive:
    return Archive(name=name, version=version, file=file.file, sha256=file.sha256, size=file.size,
                   commit=commit)


def fetch_files(cell: str, files: Iterable[LockedWheel], store: Store,
                indexes: Mapping[str, Index]) -> dict[LockedWheel, Path]:
    """Return where the files lie, fetched where they are missing; raises as ``fetch_lock``."""
    unique = tuple(dict.fromkeys(files))
    for each in unique:
        if isinstance(each, Archive) and each.commit:
            fetch_commit(each.commit, each, store)
    found = fetch_lock(Lock.model_construct(cell=cell, wheels=unique), store, indexes)
    return dict(found.paths)
