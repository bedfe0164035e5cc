"""``sparkyard tags``: what is kept and why, and a prune that removes nothing without --yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builder.cli import run
from builder.commands import tags
from builder.promotion.retention import Held, note_pushed
from tests.unit.fake_repository import Memory, put_image, repository
from tests.unit.promotion_checkout import make_checkout


def test_only_what_nothing_needs_is_removed_and_only_with_yes(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    matrix = make_checkout(tmp_path, memory, monkeypatch)
    old = put_image(memory, "old", tags=["cpu-old"])
    put_image(memory, "held", tags=["cpu-next"])
    note_pushed(repository(memory), old, "2020-01-01T00:00:00Z")
    assert run(["--matrix", matrix, "tags", "cpu"]) == 0
    assert "the tag cpu-next holds it" in capsys.readouterr().out
    assert run(["--matrix", matrix, "tags", "cpu", "--prune"]) == 0
    said = capsys.readouterr().out
    assert "1 of 2 images may go" in said
    assert "cpu-next" not in said
    assert "cpu-old" in memory.tags
    assert run(["--matrix", matrix, "tags", "cpu", "--prune", "--yes", "--json"]) == 0
    shown = capsys.readouterr()
    assert [one["kept_because"] for one in json.loads(shown.out)] == [
        "the tag cpu-next holds it", None]
    assert "removed 1 images" in shown.err
    assert ("cpu-old" in memory.tags, "cpu-next" in memory.tags) == (False, True)


def test_what_somebody_needs_since_it_was_looked_at_is_not_removed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    matrix = make_checkout(tmp_path, memory, monkeypatch)
    for name in ("a", "b"):
        image = put_image(memory, name, tags=[f"cpu-{name}"])
        note_pushed(repository(memory), image, "2020-01-01T00:00:00Z")
    look = tags.standing

    def standing(*words: Any) -> list[Held]:
        found = look(*words)
        memory.tags["cpu-next"] = memory.tags["cpu-b"]  # another run pushes meanwhile
        return found

    monkeypatch.setattr(tags, "standing", standing)
    assert run(["--matrix", matrix, "tags", "cpu", "--prune", "--yes"]) == 0
    shown = capsys.readouterr()
    assert "2 of 2 images may go" in shown.out
    assert "removed 1 images" in shown.err
    assert set(memory.tags) >= {"cpu-b", "cpu-next"}
    assert "cpu-a" not in memory.tags


@pytest.mark.parametrize("days", ["-1", "1.5", "36501", "soon"])
def test_days_that_are_no_span_of_time_are_refused_before_anything_is_asked(
        days: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(["tags", "cpu", "--prune", "--days", days])
    assert caught.value.code == 2
    assert "is not a whole number from 0 to 36500" in capsys.readouterr().err
