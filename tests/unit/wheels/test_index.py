"""The static index: pages, hashes, metadata, and what it never does."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from patch_wheels import encrypted, make_wheel, torn

from builder.errors import IntegrityError, UsageError
from builder.indexes.simple_api import parse
from builder.limits import MODULE_BYTES
from builder.wheels.index import MARKER, check_folder, write_index

VERSIONS = ("1.0+sy.7.k12345678", "1.0+sy.7.k9abcdef0")


def wheels(folder: Path) -> list[Path]:
    return [make_wheel(folder, {"spam/__init__.py": b""}, "spam", version) for version in VERSIONS]


def test_our_own_reader_and_the_json_agree(tmp_path: Path) -> None:
    made, index = wheels(tmp_path), tmp_path / "index"
    write_index(index, made)
    page = (index / "simple/spam/index.html").read_bytes()
    found = list(parse(page, "text/html", "http://host/simple/spam/"))
    document = json.loads((index / "simple/spam/index.json").read_text())
    assert [entry.file for entry in found] == [path.name for path in made]
    for entry, path, said in zip(found, made, document["files"], strict=True):
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        assert entry.sha256 == sha256 == said["hashes"]["sha256"]
        assert entry.url.startswith("http://host/files/spam-1.0%2Bsy.7.k")
        metadata = (index / "files" / f"{path.name}.metadata").read_bytes()
        assert said["core-metadata"]["sha256"] == hashlib.sha256(metadata).hexdigest()
        assert f'data-core-metadata="sha256={said["core-metadata"]["sha256"]}"' in page.decode()
    assert document["versions"] == list(VERSIONS)
    assert json.loads((index / "simple/index.json").read_text())["projects"] == [{"name": "spam"}]
    assert '<a href="spam/">spam</a>' in (index / "simple/index.html").read_text()


def test_an_index_grows_and_keeps_what_it_has(tmp_path: Path) -> None:
    made, index = wheels(tmp_path), tmp_path / "index"
    write_index(index, made[:1])
    before = (index / "files" / made[0].name).stat().st_mtime_ns
    assert [entry.file for entry in write_index(index, made[1:])["spam"]] == [
        path.name for path in made]
    assert (index / "files" / made[0].name).stat().st_mtime_ns == before
    made[0].write_bytes(made[0].read_bytes() + b"x")
    with pytest.raises(IntegrityError, match="differs"):
        write_index(index, made[:1])


def test_the_same_wheels_give_the_same_pages(tmp_path: Path) -> None:
    made = wheels(tmp_path)
    for name in ("one", "two"):
        write_index(tmp_path / name, made)
    one, two = ({path.relative_to(tmp_path / name): path.read_bytes()
                 for path in (tmp_path / name).rglob("*") if path.is_file()}
                for name in ("one", "two"))
    assert one == two


def test_a_killed_run_leaves_the_index_as_it_was(tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    made, index = wheels(tmp_path), tmp_path / "index"
    write_index(index, made[:1])
    page = (index / "simple/spam/index.html").read_bytes()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("builder.wheels.index.shutil.copyfile", killed)
    with pytest.raises(KeyboardInterrupt):
        write_index(index, made)
    monkeypatch.undo()
    assert (index / "simple/spam/index.html").read_bytes() == page
    assert len(write_index(index, made)["spam"]) == 2


def test_folders_that_are_not_an_index_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    (tmp_path / "plain").write_text("")
    for name, why in (("other", "not an index"), ("plain", "a file"), ("cache/x", "cache folder")):
        with pytest.raises(UsageError, match=why):
            check_folder(tmp_path / name, tmp_path / "cache")
    check_folder(tmp_path / "new", tmp_path / "cache")
    write_index(tmp_path / "new", wheels(tmp_path))
    check_folder(tmp_path / "new", tmp_path / "cache")
    assert (tmp_path / "new" / MARKER).exists()


@pytest.mark.parametrize(("metadata", "said"), [
    ("Name: {outside}\nVersion: 1.0+sy.7.k12345678\n", "another name or version"),
    ("Name: ../../x\nVersion: 1.0+sy.7.k12345678\n", "another name or version"),
    ("Name: spam\nVersion: 9\n", "another name or version"),
    ("Name: spam\nVersion: no version\n", "Invalid version"),
    (f"Name: spam\nVersion: {'9' * 5000}\n", "4300"), ("", "another name or version"),
    (None, "No such file")])
def test_a_file_whose_metadata_says_another_name_leads_nowhere_else(
        tmp_path: Path, metadata: str | None, said: str) -> None:
    made, index, outside = wheels(tmp_path), tmp_path / "index", tmp_path / "outside"
    write_index(index, made[:1])
    note = index / "files" / f"{made[0].name}.metadata"
    if metadata is None:
        note.unlink()
    else:
        note.write_text(metadata.format(outside=outside))
    with pytest.raises(UsageError) as caught:
        write_index(index, made[1:])
    assert said in caught.value.what
    assert made[0].name in caught.value.where
    assert not outside.exists()
    assert {path.name for path in (index / "simple").iterdir()} == {
        "spam", "index.html", "index.json"}


def with_metadata(folder: Path, metadata: bytes) -> Path:
    path = folder / "spam-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("spam-1.0.dist-info/METADATA", metadata)
        archive.writestr("spam-1.0.dist-info/RECORD", "")
    return path


@pytest.mark.parametrize("spoil", [
    encrypted, torn,
    lambda path: with_metadata(path.parent, b"Name: spam\nVersion: 2\n"),
    lambda path: with_metadata(path.parent, b"Name: spam\nVersion: 1.0\n\n" + bytes(MODULE_BYTES))])
def test_a_wheel_that_cannot_be_offered_leaves_nothing(
        tmp_path: Path, spoil: Callable[[Path], Path]) -> None:
    made, index = with_metadata(tmp_path, b"Name: spam\nVersion: 1.0\n"), tmp_path / "index"
    with pytest.raises(UsageError, match="a wheel cannot be offered"):
        write_index(index, [spoil(made)])
    assert list((index / "files").iterdir()) == []
    assert list(write_index(index, wheels(tmp_path))) == ["spam"]


def test_metadata_in_another_encoding_is_kept_as_it_is(tmp_path: Path) -> None:
    text = "Name: spam\nVersion: 1.0\nAuthor: J\xfcrgen\n".encode("latin-1")
    made = with_metadata(tmp_path, text)
    write_index(tmp_path / "index", [made])
    assert (tmp_path / "index/files" / f"{made.name}.metadata").read_bytes() == text
