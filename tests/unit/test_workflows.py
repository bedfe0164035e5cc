"""CI: actions pinned by commit, every nightly step one nox call, and no moving tag."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return loaded


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job["steps"]]


def test_both_workflows_are_there() -> None:
    assert {path.name for path in FILES} >= {"ci.yml", "nightly.yml"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version_beside(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.search(r"uses: [\w-]+(/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_checkouts_have_the_whole_history(path: Path) -> None:
    checkouts = [step for step in steps(path) if "checkout@" in step.get("uses", "")]
    assert checkouts
    assert all(step["with"]["fetch-depth"] == 0 for step in checkouts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_job_has_a_limit_and_few_permissions(path: Path) -> None:
    text = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert text["permissions"] == {"contents": "read"}
    assert all(0 < job["timeout-minutes"] <= 180 for job in jobs(path).values())


def test_every_nightly_step_is_one_nox_call_of_a_session_that_exists() -> None:
    calls = [step["run"] for step in steps(ROOT / ".github" / "workflows" / "nightly.yml")
             if "run" in step]
    sessions = re.findall(r'^    "(\w+)": "|^def (\w+)\(session', (ROOT / "noxfile.py").read_text(
        encoding="utf-8"), flags=re.MULTILINE)
    known = {name for pair in sessions for name in pair if name}
    for call in calls:
        match = re.fullmatch(r"\./nox -s (\w+)( -- [^;&|\n]+)?", call)
        assert match, call
        assert match[1] in known
    order = [call.split()[2] for call in calls]
    assert order == ["plan", "lock", "gate", "build", "smoke", "report", "report", "push",
                     "propose"]


def test_nightly_puts_the_gates_findings_on_the_code_scanning_page() -> None:
    job = jobs(ROOT / ".github" / "workflows" / "nightly.yml")["cell"]
    assert job["permissions"] == {"contents": "write", "pull-requests": "write",
                                  "security-events": "write"}
    gate, upload = next(pair for pair in itertools.pairwise(job["steps"])
                        if "-s gate" in pair[0].get("run", ""))
    assert upload["uses"].startswith("github/codeql-action/upload-sarif@")
    written = re.search(r'--sarif "(.+)"', gate["run"])
    assert written
    assert written[1].replace("$CELL", "${{ matrix.cell }}") == upload["with"]["sarif_file"]
    assert job["env"]["CELL"] == "${{ matrix.cell }}"
    assert "${{ matrix.cell }}" in upload["with"]["category"]  # else cells replace each other's
    assert "!cancelled()" in upload["if"]  # the gate's own no is what the page is for


def test_nightly_moves_no_tag() -> None:
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    assert "schedule:" in text
    assert not re.search(r"-s (promote|publish)|:latest\b|imagetools|docker tag", text)


def test_runner_labels_come_from_configuration() -> None:
    for path in FILES:
        assert all("vars.SPARKYARD" in job["runs-on"] for job in jobs(path).values())
