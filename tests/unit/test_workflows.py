"""CI: actions pinned by commit, every step one call, few rights, and no secret for a fork."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import noxfile

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NIGHTLY = ROOT / ".github" / "workflows" / "nightly.yml"


def jobs(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return loaded


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job["steps"]]


def test_the_workflows_are_there() -> None:
    assert {path.name for path in FILES} == {"ci.yml", "nightly.yml", "promote.yml", "rollback.yml"}


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


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_step_is_one_call_of_a_session_that_exists(path: Path) -> None:
    calls = [step["run"] for step in steps(path) if "run" in step]
    sessions = re.findall(r'^    "(\w+)": "|^def (\w+)\(session', (ROOT / "noxfile.py").read_text(
        encoding="utf-8"), flags=re.MULTILINE)
    known = {name for pair in sessions for name in pair if name}
    assert calls
    for call in calls:
        match = re.fullmatch(r"\./nox -s (\w+)( -- [^;&|\n]+)?", call)
        assert call == ".ci/run" or (match and match[1] in known), call


def test_the_night_is_the_call_that_a_laptop_makes() -> None:
    calls = [step["run"] for step in steps(NIGHTLY) if "run" in step]
    assert [call.split()[2] for call in calls] == ["plan", "nightly", "gate", "propose", "site"]
    assert './nox -s nightly -- "$CELL" --issues github' in calls
    assert jobs(NIGHTLY)["cell"]["env"]["SPARKYARD_SIGN_KEY"] == "${{ vars.SPARKYARD_SIGN_KEY }}"


def test_nightly_puts_the_gates_findings_on_the_code_scanning_page() -> None:
    job = jobs(NIGHTLY)["cell"]
    gate, upload = next(pair for pair in itertools.pairwise(job["steps"])
                        if "-s gate" in pair[0].get("run", ""))
    assert upload["uses"].startswith("github/codeql-action/upload-sarif@")
    written = re.search(r'--sarif "(.+)"', gate["run"])
    assert written
    assert written[1].replace("$CELL", "${{ matrix.cell }}") == upload["with"]["sarif_file"]
    assert job["env"]["CELL"] == "${{ matrix.cell }}"
    assert "${{ matrix.cell }}" in upload["with"]["category"]  # else cells replace each other's
    assert "!cancelled()" in upload["if"]  # the gate's own no is what the page is for


def test_what_builds_and_runs_images_may_not_write_to_the_repository() -> None:
    rights = {name: job.get("permissions", {}) for path in FILES
              for name, job in jobs(path).items()}
    assert rights["cell"] == {"contents": "read", "issues": "write", "security-events": "write"}
    assert rights["propose"] == {"contents": "write", "pull-requests": "write"}
    assert rights["deploy"] == {"pages": "write", "id-token": "write"}
    assert not any(rights[name] for name in rights if name not in ("cell", "propose", "deploy"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_secret_is_within_a_forks_reach(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    triggers = yaml.safe_load(text)[True]  # YAML 1.1 reads the key "on" as true
    assert "secrets." not in text
    assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(triggers)
    if "pull_request" in triggers:
        assert "github.token" not in text
        for job in jobs(path).values():
            assert job["runs-on"].startswith("${{ github.event.pull_request.head.repo.fork && ")
    assert all(step["with"]["persist-credentials"] is False for step in steps(path)
               if "checkout@" in step.get("uses", ""))


def test_runner_labels_come_from_configuration() -> None:
    labels = {name: job["runs-on"] for path in FILES for name, job in jobs(path).items()}
    for name in ("ci", "cell", "promote", "rollback"):
        assert "vars.SPARKYARD" in labels[name]
    assert "fromJSON(vars.SPARKYARD_RUNNERS || '{}')[matrix.cell]" in labels["cell"]


def test_the_operators_page_names_every_variable() -> None:
    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    used = {name for path in FILES
            for name in re.findall(r"vars\.(\w+)", path.read_text(encoding="utf-8"))}
    assert used
    assert all(f"`{name}`" in page for name in used)


def check(program: str, words: Sequence[str], path: Path) -> subprocess.CompletedProcess[str]:
    """Run one of the tools that the lint session runs, as it stands beside this Python."""
    return subprocess.run([Path(sys.executable).with_name(program), *words, path], text=True,
                          capture_output=True, timeout=120)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("tool", noxfile.CHECKS, ids=lambda tool: tool[0])
def test_the_tools_find_nothing_in_ours(tool: tuple[str, ...], path: Path) -> None:
    done = check(tool[0], tool[1:], path)
    assert done.returncode == 0, done.stdout + done.stderr


PLANTED = {  # what each tool is there for, put into the real file
    "check-jsonschema": ("timeout-minutes: 60", "timeout-minuts: 60", "timeout-minuts"),
    "zizmor": ("- run: .ci/run", "- run: echo ${{ github.head_ref }}", "template-injection"),
    "jactionlint": ("- run: .ci/run", "- run: echo ${{ steps.plan.outputs.cells }}", "plan")}


@pytest.mark.parametrize("tool", noxfile.CHECKS, ids=lambda tool: tool[0])
def test_each_tool_finds_its_fault(tool: tuple[str, ...], tmp_path: Path) -> None:
    good, bad, named = PLANTED[tool[0]]
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert good in text
    path = tmp_path / ".github" / "workflows" / "ci.yml"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace(good, bad), encoding="utf-8")
    done = check(tool[0], tool[1:], path)
    assert done.returncode != 0
    assert named in done.stdout + done.stderr
