"""The unit: absolute paths, no rights, restarted, and values that systemd does not fill in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from exported import service

from builder.errors import UsageError
from builder.recipes.exports.systemd import systemd


def test_a_unit_has_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    unit = systemd(service("gemma4-31b-fp8", key_file="/etc/my.key"))
    assert f"--user {os.getuid()}:{os.getgid()}" in unit
    assert "--cap-drop ALL" in unit
    assert "--security-opt no-new-privileges" in unit
    assert "-p 127.0.0.1:8000:8000" in unit
    assert "--env-file /etc/my.key" in unit
    assert f"-v {tmp_path}/hub:/cache/huggingface" in unit
    assert f"-v {tmp_path}/cache/vllm/gemma4-31b-fp8-" in unit
    assert "Restart=on-failure" in unit
    assert not (tmp_path / "cache").exists()  # showing makes nothing
    starts = [line for line in unit.splitlines() if line.startswith("Exec")]
    assert all(line.split("=", 1)[1].lstrip("-").startswith("/") for line in starts)


def test_dollars_and_percents_of_a_value_are_doubled() -> None:
    unit = systemd(service("tiny-gemma4", serve=("--chat", '%h "$HOME" \\')))
    assert '--chat "%%h \\"$$HOME\\" \\\\"' in unit


def test_several_machines_are_refused() -> None:
    with pytest.raises(UsageError):
        systemd(service("tiny-gemma4", nodes=2))


def test_a_description_takes_in_no_other_line() -> None:
    unit = systemd(service("tiny-gemma4", description="100 % \\ good \\\\ \\"))
    assert "Description=100 %% \\ good\nWants=docker.service" in unit
