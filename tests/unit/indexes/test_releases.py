"""Versions of a project that the indexes offer for a target."""

from __future__ import annotations

from pathlib import Path

import pytest
from index_server import IndexServer, serve_index
from packaging.tags import parse_tag

from builder.errors import NetworkError
from builder.indexes.releases import released
from builder.indexes.settings import Sources

TAGS = parse_tag("cp38-abi3-manylinux_2_28_x86_64")
FILES = ("demo-0.10.0-cp38-abi3-manylinux_2_28_x86_64.whl",
         "demo-0.9.2-cp38-abi3-manylinux_2_28_x86_64.whl",
         "demo-0.9.1+cu130-cp38-abi3-manylinux_2_28_x86_64.whl",
         "demo-0.11.0-cp38-abi3-manylinux_2_28_aarch64.whl",
         "demo-0.12.0.dev3-cp38-abi3-manylinux_2_28_x86_64.whl",
         f"demo-{'9' * 5000}-cp38-abi3-manylinux_2_28_x86_64.whl", "demo-0.8.0.tar.gz",
         "other-1.0-cp38-abi3-manylinux_2_28_x86_64.whl")


def offer(index: IndexServer) -> Sources:
    index.files.update(dict.fromkeys(FILES, b""))
    index.listed.update(dict.fromkeys(FILES, "0" * 64))
    return Sources(index.url)


def test_versions_with_a_wheel_for_the_target_come_oldest_first(tmp_path: Path) -> None:
    (tmp_path / "demo-0.10.1-cp38-abi3-manylinux_2_28_x86_64.whl").touch()
    with serve_index() as index:
        user = offer(index)
        folder = Sources(user.default_index, find_links=(str(tmp_path),))
        assert released("demo", {}, folder, TAGS) == ("0.9.1", "0.9.2", "0.10.0", "0.10.1")
        assert released("demo", {}, user, TAGS, nightlies=True)[-1] == "0.12.0.dev3"


def test_no_index_that_answers_is_a_network_error() -> None:
    user = Sources("http://127.0.0.1:9/simple/")
    with pytest.raises(NetworkError, match="no index says which versions of demo there are"):
        released("demo", {}, user, TAGS)
