"""Standings and refreshes of patches as tables and documents."""

from __future__ import annotations

import pytest

from builder.errors import LockError
from builder.patches.drift import Drift
from builder.patches.status import Candidate, Standing, Verdict
from builder.report.patches import (
    WIDE,
    Standings,
    refresh_document,
    show_refresh,
    show_standings,
    standings_document,
)

FIX = Candidate("owner/name#7", "7", b"", required=False)
APPLIES = Verdict(id=FIX.id, standing=Standing.APPLIES)
CONFLICT = Verdict(id=FIX.id, standing=Standing.CONFLICT, detail="in 1 place")
DRIFT = Drift(name="fix", source="owner/name#7", state="merged", detail="first in v2")


def test_few_cells_stand_side_by_side_and_reasons_below(
        capsys: pytest.CaptureFixture[str]) -> None:
    show_standings({"a": [(FIX, APPLIES)], "b": [(FIX, CONFLICT)], "c": []})
    said = capsys.readouterr()
    assert [line.split() for line in said.out.splitlines()] == [
        ["patch", "a", "b"], [FIX.id, "applies", "conflict"]]
    assert said.err == "b: owner/name#7 (optional): conflict (in 1 place)\n"


def test_many_cells_have_a_row_each(capsys: pytest.CaptureFixture[str]) -> None:
    many: Standings = {f"c{number}": [(FIX, APPLIES)] for number in range(WIDE + 1)}
    show_standings(many)
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == WIDE + 2
    assert rows[1].split() == [FIX.id, "c0", "applies"]


@pytest.mark.parametrize(("standings", "told"), [
    ({}, "no cell could be checked"), ({"a": []}, "no patch applies to a"),
    ({f"c{number}": [] for number in range(9)}, "no patch applies to 9 cells")])
def test_nothing_to_show_is_said(
        standings: Standings, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_standings(standings)
    assert capsys.readouterr().err.strip() == told


def test_the_documents_name_errors_by_cell() -> None:
    errors = {"b": LockError("it is stale")}
    document = standings_document({"a": [(FIX, CONFLICT)]}, errors)
    assert document["errors"] == {"b": {"kind": "lock", "what": "it is stale"}}
    assert document["cells"] == {"a": [CONFLICT.model_dump(mode="json")]}
    refreshed = refresh_document([DRIFT], [], ["delete [patches.fix]"], errors)
    assert refreshed["patches"] == [DRIFT.model_dump()]
    assert refreshed["proposals"] == ["delete [patches.fix]"]


def test_a_refresh_shows_upstream_proposals_and_patches_without_use(
        capsys: pytest.CaptureFixture[str]) -> None:
    show_refresh([DRIFT], [], ["delete [patches.fix]"], {})
    said = capsys.readouterr()
    assert "merged" in said.out
    assert "matrix.toml: delete [patches.fix]" in said.out
    assert "no wheel of these cells needs fix" in said.err


def test_no_locked_patch_at_all_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_refresh([], [], [], {})
    assert capsys.readouterr().err.strip() == "no locked cell has a patch"
