"""A fault that nobody foresaw, through the real program: one error, exit code 7, a file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from builder.cache_folder import claim
from builder.crash_report import as_error, write_report
from builder.errors import InternalError
from builder.process import Result, run

ROOT = Path(__file__).parents[2]
BROKEN = """
import sys
import builder.commands.plan as plan
def broken(options):
    raise {fault}
plan.execute = broken
from builder.__main__ import main
sys.exit(main())
"""


def sparkyard(fault: str, env: dict[str, str], *words: str) -> Result:
    return run([sys.executable, "-c", BROKEN.format(fault=fault), *words, "plan"],
               env={"PYTHONPATH": str(ROOT), **env}, check=False)


def details(done: Result) -> str:
    found = re.search(r"the details are in (\S+\.txt)", done.stderr)
    assert found, done.stderr
    return Path(found[1]).read_text(encoding="utf-8")


def test_a_fault_is_an_internal_error_with_a_file_of_details(tmp_path: Path) -> None:
    claim(tmp_path)
    done = sparkyard("KeyError('lost')", {"SPARKYARD_CACHE": str(tmp_path)})
    assert done.returncode == 7
    assert done.stdout == ""
    assert done.stderr.startswith("error: internal error: KeyError ('lost')\n")
    assert "Traceback" not in done.stderr
    assert f"the details are in {tmp_path}/logs/internal-error-" in done.stderr
    text = details(done)
    assert "command: sparkyard plan" in text
    assert "Python 3." in text
    assert "KeyError: 'lost'" in text
    assert "in broken" in text


def test_the_file_and_the_message_hold_no_secret(tmp_path: Path) -> None:
    done = sparkyard("ValueError('https://me:hunter22@host and hf_0123456789')",
                     {"SPARKYARD_CACHE": str(tmp_path), "HF_TOKEN": "hf_0123456789",
                      "TMPDIR": str(tmp_path)}, "--matrix", "https://me:hunter22@host/m.toml")
    for text in (done.stderr, details(done)):
        assert "hunter22" not in text
        assert "hf_0123456789" not in text
        assert "***" in text


def test_a_cache_that_cannot_be_written_leaves_the_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = sparkyard("KeyError(1)", {"SPARKYARD_CACHE": str(tmp_path / "file"),
                                     "TMPDIR": str(tmp_path)})
    assert done.returncode == 7
    assert f"the details are in {tmp_path}/internal-error-" in done.stderr
    assert details(done)


def test_a_fault_makes_no_cache_folder(tmp_path: Path) -> None:
    """A folder that is not marked as a cache is not ours to write into."""
    done = sparkyard("KeyError(1)", {"SPARKYARD_CACHE": str(tmp_path / "new"),
                                     "TMPDIR": str(tmp_path)})
    assert done.returncode == 7
    assert not (tmp_path / "new").exists()


def test_what_the_system_refuses_is_said_with_its_file(tmp_path: Path) -> None:
    done = sparkyard("OSError(30, 'Read-only file system', '/cache/keys')",
                     {"SPARKYARD_CACHE": str(tmp_path)})
    assert done.returncode == 2
    assert done.stderr.splitlines()[:2] == [
        "error: this file cannot be used: Read-only file system", "  where: /cache/keys"]


def test_a_deep_recursion_has_a_short_report(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path))
    claim(tmp_path)

    def dig(depth: int) -> int:
        return dig(depth + 1)

    with pytest.raises(RecursionError) as caught:
        dig(0)
    path = write_report(caught.value, ["plan"])
    assert path is not None
    assert len(path.read_text(encoding="utf-8")) < 20_000


def test_a_fault_without_a_message_is_named(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(claim(tmp_path)))
    error = as_error(AssertionError(), [])
    assert isinstance(error, InternalError)
    assert error.what == "internal error: AssertionError (no message)"


def test_the_message_names_the_file_before_what_to_do_with_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(claim(tmp_path)))
    step = as_error(AssertionError(), ["plan"]).next_step
    assert step.startswith("the details are in /")
    assert step.endswith("; look through them, since they show your command and paths, and report "
                         "them with this line")
