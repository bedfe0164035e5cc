"""``sparkyard rollback``: where the tag points then, and what changes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.cli import run
from builder.record.models import records_folder
from tests.unit.fake_repository import Memory, of_image, put_image
from tests.unit.promotion_checkout import make_checkout
from tests.unit.record.test_models import a_record, keep


@pytest.mark.parametrize("words", [
    ["rollback", "cpu", "--to", "sha256:abc"], ["rollback", "cpu", "--to", "bad tag!"],
    ["promote", "cpu", "--image", "sha256:zz"]])
def test_a_name_that_no_image_can_have_is_refused_and_nothing_is_asked(
        words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    matrix = make_checkout(tmp_path, memory, monkeypatch)
    assert run(["--matrix", matrix, *words]) == 2
    assert "this is neither a tag nor a digest" in capsys.readouterr().err
    assert not memory.requests


def test_the_last_good_image_is_back_and_its_versions_are_said(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    matrix = make_checkout(tmp_path, memory, monkeypatch)
    assert run(["--matrix", matrix, "rollback", "cpu"]) == 2
    images = [put_image(memory, name, {"org.sparkyard.version.vllm": name}, tags=[f"cpu-{name}"])
              for name in ("1.0", "2.0")]
    for image, name in zip(images, ("1.0", "2.0"), strict=True):
        keep(records_folder(tmp_path / "cache"), of_image(a_record(), image))
        assert run(["--matrix", matrix, "promote", "cpu", "--image", f"cpu-{name}"]) == 0
    capsys.readouterr()
    assert run(["--matrix", matrix, "rollback", "cpu", "--reason", "slow"]) == 0
    assert "vllm     2.0     1.0" in capsys.readouterr().out
    assert memory.tags["cpu"] == images[0].digest
    run(["--matrix", matrix, "promote", "cpu", "--image", "cpu-2.0"])
    capsys.readouterr()
    assert run(["--matrix", matrix, "rollback", "cpu", "--to", "cpu-1.0", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["changes"] == {"vllm": ["2.0", "1.0"]}
    assert run(["--matrix", matrix, "rollback", "cpu", "--unverified"]) == 2
    assert "no earlier good image" in capsys.readouterr().err
