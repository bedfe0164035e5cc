"""``sparkyard diagnose`` on files, on stdin and as JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from builder import cli

MATRIX = str(Path(__file__).parents[3] / "matrix.toml")
FATAL = "KeyError: 'layers.0.mlp.down_proj.weight_scale'\n"


def test_names_the_failure_and_ends_with_1(tmp_path: Path,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_text(FATAL)
    assert cli.run(["--matrix", MATRIX, "diagnose", str(log)]) == 1
    assert "fp8-scales-not-mapped" in capsys.readouterr().out


def typed(text: str | bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = text.encode() if isinstance(text, str) else text
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))


def test_bytes_that_are_no_text_are_read_past(monkeypatch: pytest.MonkeyPatch,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    typed(b"\xc1\xff\n" + FATAL.encode(), monkeypatch)
    assert cli.run(["--matrix", MATRIX, "diagnose", "-"]) == 1
    assert "fp8-scales-not-mapped" in capsys.readouterr().out


def test_a_log_cannot_drive_the_terminal(tmp_path: Path,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_text("\x1b]0;owned\x07 " + FATAL)
    assert cli.run(["--matrix", MATRIX, "diagnose", str(log)]) == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert r"\x1b]0;owned" in said


def test_stdin_and_json(monkeypatch: pytest.MonkeyPatch,
                        capsys: pytest.CaptureFixture[str]) -> None:
    typed("vLLM API server version 0.32.0\n" + FATAL, monkeypatch)
    assert cli.run(["--matrix", MATRIX, "diagnose", "-", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["versions"] == {"vllm": "0.32.0"}
    assert [(item["name"], item["claimed"]) for item in document["issues"]] == [
        ("fp8-scales-not-mapped", True)]


def test_what_the_version_rules_out_is_no_finding(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("vLLM API server version 0.32.0\nAmbiguousGlobalPerLayerAttributeError\n")
    assert cli.run(["--matrix", MATRIX, "diagnose", str(log)]) == 0


def test_a_missing_file_is_a_plain_error(tmp_path: Path,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--matrix", MATRIX, "diagnose", str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_very_long_log_is_looked_at_at_both_ends(tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("builder.diagnosis.log_file.END_BYTES", 1 << 20)
    log = tmp_path / "log"
    noise = "INFO all is well\n" * 300_000
    for text in (noise + FATAL, FATAL + noise):
        log.write_text(text)
        assert cli.run(["--matrix", MATRIX, "diagnose", str(log)]) == 1
        said = capsys.readouterr()
        assert "fp8-scales-not-mapped" in said.out
        assert "in the middle of the log were not read" in said.err
    typed(noise[:2_000_000] + FATAL, monkeypatch)
    assert cli.run(["--matrix", MATRIX, "diagnose", "-"]) == 1
    assert "middle" not in capsys.readouterr().err


def test_a_file_that_is_no_log_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """It used to say "no known failure", which a reader takes for a healthy server."""
    assert cli.run(["diagnose", str(Path(MATRIX).with_name("LICENSE"))]) == 2
    shown = capsys.readouterr()
    assert "does not look like a log" in shown.err
    assert shown.out == ""


def test_a_healthy_log_needs_no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").write_text("INFO: Application startup complete.\n")
    assert cli.run(["diagnose", "log"]) == 0
    assert "no known failure in 1 lines" in capsys.readouterr().out


def test_names_are_explained_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["diagnose", "--explain", "F14"]) == 0
    assert capsys.readouterr().out.startswith("fp8-scales-not-mapped (F14), ")
    assert cli.run(["diagnose", "--list"]) == 0
    assert "logits-nan" in capsys.readouterr().out
    assert cli.run(["diagnose", "--explain", "F99"]) == 2
    assert cli.run(["diagnose"]) == 2


def test_versions_that_the_log_names_are_shown(tmp_path: Path,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    """A reader compares them with "until"; a list of all packages would not help."""
    log = tmp_path / "server.log"
    log.write_text("INFO Initializing a V1 LLM engine (v0.24.0) with config\n"
                   "[pip3] torch==2.11.0\n[pip3] transformers==5.13.0\n[pip3] numpy==2.1.0\n")
    assert cli.run(["diagnose", str(log)]) == 0
    assert "versions in the log: vllm 0.24.0, torch 2.11.0, transformers 5.13.0\n" in (
        capsys.readouterr().out)
