"""A network lives as long as its block, and names its process."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder import labels as label
from builder.engine.docker import DockerClient
from builder.engine.leftovers import own_name
from builder.engine.network import network
from builder.errors import EngineError
from tests.unit.fake_docker import fake_docker


def noted(tmp_path: Path, more: str = "") -> tuple[DockerClient, Path]:
    note = tmp_path / "note"
    body = f"open({str(note)!r}, 'a').write(' '.join(words) + '\\n')\n{more}"
    return DockerClient((str(fake_docker(tmp_path, body)),)), note


def test_it_is_made_with_its_label_and_removed_again(tmp_path: Path) -> None:
    docker, note = noted(tmp_path)
    with pytest.raises(KeyError), network(docker) as name:
        raise KeyError("in the block")
    assert note.read_text().splitlines() == [
        f"network create --label {label.RUN}={own_name()} {name}", f"network rm {name}"]


def test_two_have_two_names(tmp_path: Path) -> None:
    docker, _ = noted(tmp_path)
    with network(docker) as one, network(docker) as other:
        assert one != other


def test_one_that_cannot_be_made_is_an_error_and_not_removed(tmp_path: Path) -> None:
    docker, note = noted(tmp_path, "sys.exit(1)")
    with pytest.raises(EngineError, match="making a network"), network(docker):
        pass
    assert "rm" not in note.read_text()
