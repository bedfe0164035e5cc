"""The names of our labels: published images carry them, so none may change or collide."""

from __future__ import annotations

import re
from pathlib import Path

from builder import labels

OURS = {name: value for name, value in vars(labels).items()
        if name.isupper() and name not in ("PREFIX", "OCI")}


def test_published_images_are_found_again_by_these_names() -> None:
    assert OURS == {
        "INPUTS": "org.sparkyard.inputs", "CELL": "org.sparkyard.cell",
        "LOCK": "org.sparkyard.lock", "STATUS": "org.sparkyard.status",
        "PATCHES": "org.sparkyard.patches", "PATCHED": "org.sparkyard.patched.",
        "NCCL": "org.sparkyard.nccl.sha256", "VERSION": "org.sparkyard.version.",
        "RUN": "org.sparkyard.run", "SERVE": "org.sparkyard.serve.",
        "SAMPLE": "org.sparkyard.sample"}


def test_no_label_is_inside_the_name_space_of_another() -> None:
    spaces = [value for value in OURS.values() if value.endswith(".")]
    assert [(space, value) for space in spaces for value in OURS.values()
            if value != space and value.startswith(space)] == []


def test_no_other_module_spells_a_label() -> None:
    folder = Path(labels.__file__).parent
    spelt = re.compile(r'"org\.(sparkyard|opencontainers)\.')
    assert spelt.search(Path(labels.__file__).read_text(encoding="utf-8"))
    assert [path.name for path in folder.rglob("*.py") if path.name != "labels.py"
            and spelt.search(path.read_text(encoding="utf-8"))] == []
