"""How the scripts inside an image report: one line each, as the host reads it, and their task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import results

from builder.record.check import Status
from builder.smoke import levels

PARSE = levels.parse


@pytest.mark.parametrize(("error", "status", "detail"), [
    (None, Status.PASS, "seen"), (results.Wrong("two of them"), Status.FAIL, "two of them"),
    (KeyError("x"), Status.FAIL, "KeyError: 'x'")])
def test_each_check_is_one_line_whatever_happens(capsys: pytest.CaptureFixture[str],
                                                 error: Exception | None, status: Status,
                                                 detail: str) -> None:
    with results.check("a check") as details:
        details.append("seen")
        if error:
            raise error
    line, = (line for line in capsys.readouterr().out.splitlines() if line.startswith("@@"))
    found = PARSE(line)
    assert found is not None
    assert (found.check, found.status, found.detail) == ("a check", status, detail)


def test_the_task_lies_beside_the_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "spec.json"
    file.write_text(json.dumps({"cuda": None}))
    monkeypatch.setattr(results, "SPEC", file)
    assert results.spec() == {"cuda": None}
