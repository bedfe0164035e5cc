"""The results of ``patch status`` and ``patch refresh``, as tables and as JSON documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from builder import console
from builder.errors import SparkyardError
from builder.patches.drift import Drift
from builder.patches.refresh import Refreshed
from builder.patches.status import Candidate, Standing, Verdict

WIDE = 5  # cells side by side in a table; more of them stand below each other
Standings = dict[str, list[tuple[Candidate, Verdict]]]  # by cell
Errors = Mapping[str, SparkyardError]  # by cell


def standings_document(standings: Standings, errors: Errors) -> dict[str, object]:
    """Return what patches are to each cell, and which cells could not be judged."""
    return {"schema": 1, "errors": _as_json(errors), "cells": {
        name: [verdict.model_dump(mode="json") for _, verdict in pairs]
        for name, pairs in standings.items()}}


def show_standings(standings: Standings) -> None:
    """Print patches x cells: side by side while that fits, else a row each; then the reasons."""
    patched = {name: pairs for name, pairs in standings.items() if pairs}
    if not patched:
        names = ", ".join(standings) if len(standings) <= WIDE else f"{len(standings)} cells"
        console.info(f"no patch applies to {names}" if standings else "no cell could be checked")
        return
    if len(patched) <= WIDE:
        by_cell = [_rows(pairs) for pairs in patched.values()]
        rows = dict.fromkeys(row for cell in by_cell for row in cell)
        console.table("", ("patch", *patched), [
            (row[0], *(cell.get(row, "") for cell in by_cell)) for row in rows])
    else:
        console.table("", ("patch", "cell", "standing"), [
            (verdict.id, name, verdict.standing)
            for name, pairs in patched.items() for _, verdict in pairs])
    for name, pairs in patched.items():
        for candidate, verdict in pairs:
            if verdict.detail or verdict.conflicts:
                weight = "" if candidate.required else " (optional)"
                console.info(f"{name}: {verdict.id}{weight}: {verdict.why}")


def _rows(pairs: Sequence[tuple[Candidate, Verdict]]) -> dict[tuple[str, int], Standing]:
    """Return the standings by name and its count: two parts of one request have the same name."""
    names = [verdict.id for _, verdict in pairs]
    return {(verdict.id, names[:at].count(verdict.id)): verdict.standing
            for at, (_, verdict) in enumerate(pairs)}


def refresh_document(upstream: Sequence[Drift], done: Sequence[Refreshed], edits: Sequence[str],
                     errors: Errors) -> dict[str, object]:
    """Return what upstream has now, the patches as locked, and what is proposed."""
    return {"schema": 1, "errors": _as_json(errors), "proposals": list(edits),
            "patches": [one.model_dump() for one in upstream], "cells": {one.cell.id: {
                "changed": one.changed, "moved": list(one.moved),
                "patches": [patch.model_dump() for patch in one.lock.patches]} for one in done}}


def show_refresh(upstream: Sequence[Drift], done: Sequence[Refreshed], edits: Sequence[str],
                 errors: Errors) -> None:
    """Print the same: what moved, what became of each patch, each cell's lock, the edits."""
    for one in done:
        for moved in one.moved:
            console.info(f"{one.cell.id}: accepted: {moved}")
    if not upstream:
        console.info("no locked cell has a patch")
        return
    console.table("", ("patch", "upstream", "state", ""), [
        (one.name, one.source, one.state, one.detail) for one in upstream])
    console.table("", ("cell", "lock", "patches", "unresolved"), [
        (one.cell.id, "written" if one.changed else "unchanged", len(one.lock.patches),
         sum(bool(patch.why) for patch in one.lock.patches)) for one in done])
    if not errors and (idle := _idle(upstream, done)):
        console.info(f"no wheel of these cells needs {', '.join(idle)}; check their `package` "
                     "and `versions`")
    for edit in edits:
        console.out(f"matrix.toml: {edit}")


def _idle(upstream: Sequence[Drift], done: Sequence[Refreshed]) -> list[str]:
    """Return the patches that no cell's wheels need: perhaps a package's name is misspelt."""
    needed = {patch.name for one in done for patch in one.lock.patches}
    return [one.name for one in upstream if one.name not in needed]


def _as_json(errors: Mapping[str, SparkyardError]) -> dict[str, dict[str, str]]:
    return {cell: {"kind": error.kind, "what": error.what} for cell, error in errors.items()}
