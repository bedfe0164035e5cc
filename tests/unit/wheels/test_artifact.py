"""Compiled files in a registry: found again, every digest checked, no registry is no error."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled_extension import Gcc, make_order
from registry_server import serving

from builder.errors import IntegrityError, NetworkError
from builder.wheels.artifact import pull, pull_record, push, push_record
from builder.wheels.assemble import record_of

KEY = "ab" * 32
NOBODY = "127.0.0.1:9/team"


def test_what_is_pushed_is_pulled_again(tmp_path: Path) -> None:
    order, output, again = make_order(tmp_path), tmp_path / "output", tmp_path / "again"
    output.mkdir()
    rebuilt = Gcc().compile(order, output)
    with serving() as server:
        registry = f"{server.host}/team"
        assert pull(registry, KEY, again) is None
        name = push(registry, rebuilt, output, tmp_path / "j")
        assert name == f"{registry}/wheels:compiled-{KEY}"
        assert pull(registry, KEY, again) == rebuilt
        sent = server.count("PATCH")
        push(registry, rebuilt, output, tmp_path / "j")
        assert server.count("PATCH") == sent
        record = record_of(order, rebuilt)
        assert pull_record(registry, "1" * 64) is None
        push_record(registry, "1" * 64, record, tmp_path / "j")
        assert pull_record(registry, "1" * 64) == record
        digest = ("team/wheels", f"sha256:{rebuilt.files[0].sha256}")
        server.blobs[digest] = bytes(reversed(server.blobs[digest]))
        with pytest.raises(IntegrityError):
            pull(registry, KEY, again)
        del server.blobs[digest]
        assert pull(registry, KEY, again) is None
    file = rebuilt.files[0].path
    assert (again / file).parent.is_dir()


def test_without_a_registry_nothing_is_found_and_pushing_says_so(tmp_path: Path) -> None:
    assert pull(NOBODY, KEY, tmp_path) is None
    assert pull_record(NOBODY, "1" * 64) is None
    output = tmp_path / "output"
    output.mkdir()
    rebuilt = Gcc().compile(make_order(tmp_path), output)
    with pytest.raises(NetworkError):
        push(NOBODY, rebuilt, output, tmp_path / "j")
