"""Where things lie: the checkout, the cache folder and the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.workspace import cache_folder, open_workspace

ROOT = Path(__file__).parents[2]


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("SPARKYARD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "sparkyard"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "sparkyard"


def test_a_workspace_is_the_folder_of_its_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = open_workspace(ROOT / "matrix.toml")
    assert workspace.locks == ROOT / "locks"
    assert workspace.cells
    monkeypatch.setenv("SPARKYARD_REGISTRY", "registry.example/mine")
    assert workspace.registry == "registry.example/mine"
    for wrong in ("--evil", "UPPER/x", "team/images"):
        monkeypatch.setenv("SPARKYARD_REGISTRY", wrong)
        with pytest.raises(UsageError, match="is not a registry") as caught:
            _ = workspace.registry
        assert caught.value.where == "SPARKYARD_REGISTRY"
        assert "matrix.toml" not in caught.value.next_step
    monkeypatch.delenv("SPARKYARD_REGISTRY")
    assert workspace.registry == workspace.matrix.registry
