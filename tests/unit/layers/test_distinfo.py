"""RECORD as an installer leaves it, and the files that two wheels bring."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hand_made_wheels import make_wheel, record_hash

from builder.errors import UsageError
from builder.layers.distinfo import (
    find_collisions,
    fingerprint,
    metadata_files,
    owners,
    parse,
    relative,
    render,
    requested,
)
from builder.layers.wheel_contents import Layout, open_wheel
from builder.tarball import File, content, in_memory

LAYOUT = Layout("3.11.2")
INFO = f"{LAYOUT.site}/demo-1.0.dist-info"


def metadata(folder: Path, name: str, files: dict[str, bytes]) -> list[File]:
    with open_wheel(make_wheel(folder, name, files), LAYOUT) as contents:
        compiled = {f"{LAYOUT.site}/x.pyc": in_memory(f"{LAYOUT.site}/x.pyc", b"code")}
        return [in_memory(file.path, content(file))
                for file in metadata_files(contents, compiled, LAYOUT)]


def record(files: list[File]) -> dict[str, tuple[str, str]]:
    text = next(content(file) for file in files if file.path.endswith("/RECORD")).decode()
    return {path: (digest, size) for path, digest, size in csv.reader(text.splitlines())}


def test_every_file_is_recorded_with_its_hash(tmp_path: Path) -> None:
    rows = record(metadata(tmp_path, "demo", {
        "demo.py": b"1\n", "demo-1.0.data/scripts/tool": b"#!python\n"}))
    assert rows["demo.py"] == ("sha256=" + record_hash(b"1\n"), "2")
    assert rows["x.pyc"] == (fingerprint([b"code"]), "4")
    assert rows["../../../bin/tool"] == (
        "sha256=" + record_hash(b"#!/opt/sparkyard/bin/python\n"), "28"), "as rewritten"
    assert rows["demo-1.0.dist-info/RECORD"] == ("", "")
    assert list(rows) == sorted(rows)


def test_the_installers_own_files_are_ours(tmp_path: Path) -> None:
    files = metadata(tmp_path, "demo", {"demo-1.0.dist-info/INSTALLER": b"pip\n",
                                        "demo-1.0.dist-info/REQUESTED": b""})
    found = {file.path.rpartition("/")[2]: content(file) for file in files}
    assert found["INSTALLER"] == b"sparkyard\n"
    assert "REQUESTED" not in found


def test_a_wheel_that_was_asked_for_by_name_says_so(tmp_path: Path) -> None:
    files = requested(metadata(tmp_path, "demo", {"demo.py": b"1"}), LAYOUT)
    assert f"{INFO}/REQUESTED" in {file.path for file in files}
    assert record(files)["demo-1.0.dist-info/REQUESTED"] == (fingerprint([b""]), "0")


def test_rows_are_written_and_read_alike() -> None:
    rows = [("a,b.py", "sha256=x", "1"), ('"q".py', "sha256=y", "2")]
    assert set(rows) < set(parse(render(rows, "demo-1.0.dist-info")))


def test_paths_are_relative_to_site_packages() -> None:
    assert relative(f"{LAYOUT.site}/a/b.py", LAYOUT) == "a/b.py"
    assert relative("opt/sparkyard/bin/x", LAYOUT) == "../../../bin/x"


def test_files_that_differ_between_wheels_are_found_and_the_last_wins(tmp_path: Path) -> None:
    both = {name: metadata(tmp_path, name, {"same.py": b"same", "other.py": name.encode()})
            for name in ("alpha", "beta")}
    (collision,) = find_collisions(both, LAYOUT)
    assert collision.path == f"{LAYOUT.site}/other.py"
    assert collision.wheels == ("alpha", "beta")
    assert "beta's is in the image" in collision.line
    assert owners(both, LAYOUT)[f"{LAYOUT.site}/same.py"] == "beta"


def test_wheels_that_share_nothing_do_not_collide(tmp_path: Path) -> None:
    both = {name: metadata(tmp_path, name, {f"{name}.py": b"1"}) for name in ("alpha", "beta")}
    assert find_collisions(both, LAYOUT) == []


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    both = {"alpha": metadata(tmp_path, "alpha", {"thing": b"1"}),
            "beta": metadata(tmp_path, "beta", {"thing/x.py": b"1"})}
    with pytest.raises(UsageError, match="is a file in alpha and a folder in beta"):
        find_collisions(both, LAYOUT)
