"""The verb: a table with remedies, one JSON document, and the exit code of a verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder import cli
from builder.commands.doctor import need_of, show
from builder.doctor.judging import Line, Verdict
from builder.recipes.load import load_recipe
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[3]
MATRIX = str(ROOT / "matrix.toml")


def test_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.run(["--matrix", MATRIX, "doctor", "--json"])
    lines = json.loads(capsys.readouterr().out)
    assert {"machine", "memory", "docker"} <= {line["check"] for line in lines}
    assert status == int(any(line["verdict"] == "unfit" for line in lines))


def test_what_a_recipe_needs_comes_from_its_file() -> None:
    workspace = open_workspace(Path(MATRIX))
    large = need_of(workspace, load_recipe(ROOT, "gemma4-26b-a4b-fp8"))
    assert (large.memory_share, large.cuda) == (0.7, "13.0")
    assert large.model == 50_400_000_000
    tiny = need_of(workspace, load_recipe(ROOT, "tiny-gemma4"))
    assert (tiny.memory_share, tiny.cuda, tiny.model) == (0.0, "", 0)


def test_the_worst_comes_first_and_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    show((Line(check="swap", verdict=Verdict.OK, seen="off"),
          Line(check="port", verdict=Verdict.UNFIT, seen="8000 is taken", reason="the server",
               remedy="stop it", source="https://example.org")))
    text = capsys.readouterr().out
    assert text.index("UNFIT") < text.index("OK")
    assert "do:     stop it" in text
    assert "1 unfit, 0 warning, 0 unseen, 1 ok" in text
