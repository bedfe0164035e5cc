"""``sparkyard verify``: a line a finding, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder import labels as label
from builder.cli import run
from builder.commands.verify import show
from builder.promotion.verify import Finding
from tests.unit.fake_repository import Memory, a_layer, put_layers
from tests.unit.promotion_checkout import make_checkout


def test_what_is_wrong_is_shown_and_is_the_exit_code(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    matrix = make_checkout(tmp_path, memory, monkeypatch)
    image = put_layers(memory, [a_layer({"a": b"1"})], {label.CELL: "tf5"}, ["cpu"])
    assert run(["--matrix", matrix, "verify", "cpu"]) == 1
    said = capsys.readouterr().out
    assert "good   layers    1 layers have the bytes" in said
    assert "WRONG  lock      no lock is attached" in said
    assert "WRONG  cell      the image is one of tf5" in said
    assert f"FAILED: 127.0.0.1:5000/team/cpu@{image.digest}, 5 wrong of 6" in said
    assert run(["--matrix", matrix, "verify", f"cpu@{image.digest}", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["good"] is False


@pytest.mark.parametrize(("name", "code"), [("cpx", 2), ("cpu:gone", 2)])
def test_what_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str,
                                       code: int) -> None:
    matrix = make_checkout(tmp_path, Memory(), monkeypatch)
    assert run(["--matrix", matrix, "verify", name]) == code


def test_a_key_that_is_not_there_is_said_before_the_registry_is_asked(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    matrix = make_checkout(tmp_path, Memory(), monkeypatch)
    assert run(["--matrix", matrix, "verify", "cpu", "--key", "/nowhere/cosign.pub"]) == 2
    assert "there is no such key" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["verify", "sbom", "diff"])
@pytest.mark.parametrize("name", [
    "cpu@sha256:abc", "cpu@zz", "cpu@", "cpu:", "cpu:bad tag!", "cpu:../x", "cpu@cpu-next",
    "cpu@sha256:" + "A" * 64])
def test_what_no_image_can_be_called_is_refused_and_nothing_is_asked(
        verb: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    matrix = make_checkout(tmp_path, memory, monkeypatch)
    assert run(["--matrix", matrix, verb, name, *(["cpu"] if verb == "diff" else [])]) == 2
    shown = capsys.readouterr().err
    assert f"what stands behind {name[3]} is no {'digest' if name[3] == '@' else 'tag'}" in shown
    assert name in shown
    assert not memory.requests


def test_a_label_of_an_image_writes_no_line_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    show("x", [Finding("cell", "the image is one of a\nPASSED: x, 0 wrong of 9"),
               Finding("record", "gaps:\n  one\n  two")])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "WRONG  cell      the image is one of a", "WRONG  record    gaps:",
        "FAILED: x, 2 wrong of 2"]
    assert lines[1] == " " * 19 + "PASSED: x, 0 wrong of 9"
