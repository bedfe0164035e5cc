"""A compiled extension on its whole way: compiled, judged, locked, built in, and called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder import labels as label
from builder.build import build
from builder.commands.wheels_build import build_cells
from builder.engine.client import Engine
from builder.image import local_name
from builder.locking.lock import load_for
from builder.store.content_store import Store
from builder.wheels.assemble import NOTE
from builder.wheels.stage import provide
from tests.integration.test_build import SITE, run_in
from tests.unit.compiled_cells import compiled_workspace
from tests.unit.compiled_extension import Gcc

pytestmark = pytest.mark.engine
SHOW = "import spam._answer, spam._other; print(spam._answer.value(), spam._other.value())"


def test_the_image_has_the_compiled_wheel_instead_of_the_published_one(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, engine = compiled_workspace(tmp_path, monkeypatch), Engine.connect()
    monkeypatch.delenv("SPARKYARD_REGISTRY")  # the registry that has the base
    cell = workspace.cells[0]
    build_cells(workspace, [cell], Gcc())
    lock = load_for(cell, workspace.locks)
    wheel = lock.wheel("spam")
    assert wheel
    try:
        built = build(workspace, cell, engine)
        assert run_in(engine, built.plan.name, SHOW).split() == ["42", "7"]
        assert run_in(engine, built.plan.name, "from importlib.metadata import version; "
                      "print(version('spam'))") == wheel.version
        folder = f"{SITE}/spam-{wheel.version}.dist-info"
        note = json.loads(run_in(engine, built.plan.name, f"print(open('{folder}/{NOTE}').read())"))
        assert note["key"] == lock.compiled[0].key
        assert built.image.labels[label.LOCK] == lock.digest
        assert build(workspace, cell, engine).up_to_date
        other = Store(tmp_path / "another machine")
        provide(workspace.registry, cell, lock, other)
        assert other.find_wheel(wheel), "put together from what the registry has"
    finally:
        engine.remove(local_name(workspace.registry, cell))
