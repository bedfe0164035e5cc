"""``sparkyard diff``: what is shown of two images."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder import labels as label
from builder.cli import run
from builder.promotion.verify import SBOM_TYPE
from builder.sbom import make_sbom
from tests.unit.fake_repository import Memory, a_layer, put_layers, repository
from tests.unit.promotion.test_compare import NEWER
from tests.unit.promotion_checkout import make_checkout
from tests.unit.test_sbom import BASE, a_lock


def test_changes_bytes_and_records_are_shown(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    matrix = make_checkout(tmp_path, memory, monkeypatch)
    for name in ("1.0", "2.0"):
        put_layers(memory, [a_layer({"a": name.encode()})], {label.VERSION + "vllm": name},
                   [f"cpu-{name}"])
    assert run(["--matrix", matrix, "diff", "cpu:cpu-1.0", "cpu:cpu-2.0"]) == 0
    shown = capsys.readouterr()
    assert "vllm  1.0     2.0" in shown.out
    assert "Debian packages: no change" in shown.out
    assert "in 1 of 1 layers" in shown.out
    assert "no record is attached" in shown.out
    assert "only labelled versions" in shown.err
    assert run(["--matrix", matrix, "diff", "cpu:cpu-1.0", "cpu:cpu-1.0", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["wheels"], value["to_pull"], value["layers"]["new"]) == ({}, 0, [])


def test_packages_of_the_base_that_change_are_shown(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    matrix = make_checkout(tmp_path, memory, monkeypatch)
    for name, base in (("1.0", BASE), ("2.0", NEWER)):
        image = put_layers(memory, [a_layer({"a": name.encode()})], {}, [f"cpu-{name}"])
        repository(memory).attach(image, SBOM_TYPE, make_sbom(
            a_lock(), base, {}, image.digest, lambda _wheel: ""), {}, "bom.cdx.json")
    assert run(["--matrix", matrix, "diff", "cpu:cpu-1.0", "cpu:cpu-2.0"]) == 0
    shown = capsys.readouterr().out
    assert "wheels: no change" in shown
    assert "Debian packages: 1 changes" in shown
    assert "bash  5.2-2+b1  5.2-3" in shown
