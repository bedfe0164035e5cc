"""``gate --image`` on what an engine really exports: damage of installed distributions."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator

import pytest
from elf_files import elf_file, record_of

from builder import cli
from builder.engine.client import Engine

pytestmark = pytest.mark.engine

NAME = "sparkyard-test-gate:image"
SITE = "opt/venv/lib/python3.11/site-packages"
CODE = {"thing/a.py": b"a = 1\n", "thing/gone.py": b"", "thing/cut.so": elf_file(soname="cut.so"),
        "thing/_C.cpython-312-aarch64-linux-gnu.so": elf_file()}


@pytest.fixture
def image() -> Iterator[str]:
    """Import a file system whose one distribution was changed after it was installed."""
    info = f"{SITE}/thing-1.0.dist-info"
    files = {f"{SITE}/{path}": data for path, data in CODE.items()}
    files[f"{info}/METADATA"] = b"Name: thing\nVersion: 1.0\n"
    files[f"{info}/RECORD"] = record_of(CODE, "thing-1.0.dist-info/RECORD")
    files[f"{SITE}/thing/a.py"] = b"a = 2\n"
    files[f"{SITE}/thing/cut.so"] = CODE["thing/cut.so"][:-200]
    del files[f"{SITE}/thing/gone.py"]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, data in files.items():
            item = tarfile.TarInfo(path)
            item.size = len(data)
            archive.addfile(item, io.BytesIO(data))
    engine = Engine.connect()
    engine.docker.run("image", "import", "--platform", "linux/arm64", "-", NAME,
                      doing="importing a test image", stdin=stream.getvalue())
    yield NAME
    engine.remove(NAME)


def test_damage_of_an_installed_distribution_is_found(
        image: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["gate", "--image", image, "--json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    found = {(one["code"], one["file"].rpartition("/")[2]) for one in report["findings"]
             if one["code"].startswith("file-") or one["code"] == "wrong-tags"}
    assert found == {("file-changed", "a.py"), ("file-lost", "gone.py"),
                     ("file-broken", "cut.so"), ("wrong-tags", "")}
    assert report["size"] > 0
    assert cli.run(["gate", "--image", image]) == 1
    assert "0 B unpacked" not in capsys.readouterr().out
