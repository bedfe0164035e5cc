"""``sparkyard sbom``: the table, and the two files for other programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.cli import run
from builder.promotion.verify import SBOM_TYPE
from tests.unit.fake_repository import Memory, put_image, repository
from tests.unit.promotion_checkout import make_checkout
from tests.unit.test_sbom import a_document


def test_it_shows_licences_or_writes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    matrix = make_checkout(tmp_path, memory, monkeypatch)
    image = put_image(memory, "x", tags=["cpu-next"])
    assert run(["--matrix", matrix, "sbom", "cpu:cpu-next"]) == 1
    assert "no list of contents" in capsys.readouterr().err
    repository(memory).attach(image, SBOM_TYPE, a_document(), {}, "bom.cdx.json")
    assert run(["--matrix", matrix, "sbom", "cpu:cpu-next"]) == 0
    said = capsys.readouterr().out
    assert "BSD-3-Clause" in said
    assert said.endswith("2 wheels, 1 Debian packages\n")
    bom, listed = tmp_path / "bom.json", tmp_path / "r.txt"
    assert run(["--matrix", matrix, "sbom", "cpu:cpu-next", "--output", str(bom),
                "--requirements", str(listed)]) == 0
    assert capsys.readouterr().out == ""
    assert bom.read_bytes() == a_document()
    assert listed.read_text().startswith("torch==2.1+cpu --hash=sha256:")
    assert run(["--matrix", matrix, "sbom", "cpu:cpu-next", "--output", matrix]) == 2
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "kept"))
    (tmp_path / "kept" / "keys").mkdir(parents=True)
    assert run(["--matrix", matrix, "sbom", "cpu:cpu-next", "--requirements",
                str(tmp_path / "kept" / "keys" / "x")]) == 2
    assert "it lies in the cache folder" in capsys.readouterr().err
