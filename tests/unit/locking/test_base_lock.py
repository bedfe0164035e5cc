"""The bases' lock: deterministic, sorted, one package a line, refused when damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import LockError
from builder.locking.base_lock import LockedBase, LockedDeb, load_bases, render, write_bases
from builder.locking.sums import is_as_written

DIGEST = "sha256:" + 64 * "a"


def make_deb(name: str, version: str = "1.0") -> LockedDeb:
    return LockedDeb(name=name, version=version, arch="all", sha256=64 * "b", size=3,
                     path=f"pool/main/{name[0]}/{name}/{name}_{version}_all.deb")


def make_base(platform: str = "linux/arm64", **changes: object) -> LockedBase:
    return LockedBase.model_validate({
        "name": "slim", "platform": platform, "recipe": DIGEST, "image_id": DIGEST,
        "digest": DIGEST, "diff_ids": (DIGEST,), "python": "3.11.2", "glibc": "2.36",
        "epoch": 1, "packages": (make_deb("zlib1g", "1:1.2"), make_deb("adduser")), **changes})


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "bases.toml"
    bases = {base.key: base for base in (make_base(), make_base("linux/amd64"))}
    write_bases(path, bases)
    read = load_bases(path)
    assert set(read) == {("slim", "linux/arm64"), ("slim", "linux/amd64")}
    assert {deb.name for deb in read["slim", "linux/arm64"].packages} == {"zlib1g", "adduser"}
    assert render(read.values()) == path.read_text()


def test_the_time_of_a_snapshot_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "bases.toml"
    base = make_base(snapshot="20261121T235959Z")
    write_bases(path, {base.key: base})
    assert 'snapshot = "20261121T235959Z"' in path.read_text()
    assert load_bases(path)[base.key].snapshot == "20261121T235959Z"


def test_order_of_entry_does_not_matter() -> None:
    one, two = make_base(), make_base("linux/amd64")
    turned = one.model_copy(update={"packages": one.packages[::-1]})
    assert render([one, two]) == render([two, turned])


def test_one_package_is_one_line() -> None:
    before = render([make_base()]).splitlines()
    after = render([make_base(packages=(make_deb("zlib1g", "1:1.3"), make_deb("adduser")))])
    changed = [line for line in after.splitlines() if line not in before]
    assert len(changed) == 1
    assert changed[0].startswith('    { name = "zlib1g", version = "1:1.3"')


def test_no_file_is_no_bases(tmp_path: Path) -> None:
    assert load_bases(tmp_path / "none.toml") == {}


@pytest.mark.parametrize("text", ["[[base]]\nname = 1\n", "not toml [", '[[base]]\nextra = "x"\n'])
def test_a_damaged_lock_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bases.toml"
    path.write_text(text)
    with pytest.raises(LockError) as caught:
        load_bases(path)
    assert caught.value.exit_code == 3
    assert "--upgrade" in caught.value.next_step


@pytest.mark.parametrize(("before", "after", "said"), [
    ("size = 3", "size = 0", "adduser: sha256 and path belong together"),
    ('name = "zlib1g"', 'name = "adduser"', "the package adduser all is there twice"),
    ('name = "adduser"', 'name = "zzz"', "its packages are not sorted by name"),
    ("epoch = 1", "epoch = 1\nnote = 1", "base.0.note: unknown key"),
    ("# Generated", "note = 1\n# Generated", "note: unknown key"),
    ('python = "3.11.2"', "python = 1e400", "base.0.python"),
    ("epoch = 1", 'epoch = 1\nsnapshot = "20261399T000000Z"', "base.0.snapshot"),
    ("epoch = 1", 'epoch = 1\nsnapshot = "yesterday"', "is not a time like"),
])
def test_each_edit_is_refused_by_name(tmp_path: Path, before: str, after: str, said: str) -> None:
    path = tmp_path / "bases.toml"
    path.write_text(render([make_base()]).replace(before, after, 1))
    with pytest.raises(LockError) as caught:
        load_bases(path)
    assert said in caught.value.what


def test_a_base_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bases.toml"
    path.write_text(render([make_base(), make_base()]))
    with pytest.raises(LockError, match="base: slim linux/arm64 is there twice"):
        load_bases(path)


def test_the_sum_is_kept_where_locks_keep_sums(tmp_path: Path) -> None:
    path = tmp_path / "bases.toml"
    write_bases(path, {make_base().key: make_base()})
    assert [file.name for file in tmp_path.iterdir()] == ["bases.toml"]
    (tmp_path / "SHA256SUMS").write_text("")
    write_bases(path, {make_base().key: make_base()})
    assert is_as_written(path)


def test_a_reason_is_written_only_where_there_is_one() -> None:
    assert "unlocked" not in render([make_base()])
    assert 'unlocked = "gone"' in render([make_base(unlocked="gone")])


@pytest.mark.parametrize(("before", "after", "said"), [
    ('name = "slim"', 'name = "../../x"', "base.0.name"),
    ('python = "3.11.2"', 'python = "x"', "base.0.python"),
    ('glibc = "2.36"', 'glibc = "2.x"', "base.0.glibc"),
    ("epoch = 1", f"epoch = {10**30}", "base.0.epoch"), ("epoch = 1", "epoch = -1", "base.0.epoch"),
    ("pool/main/z", "pool/\\u0000/z", "base.0.packages.1.path"),
    ('"1:1.2"', '"1:\\n1.2"', "base.0.packages.1.version")])
def test_each_edit_of_the_facts_is_refused_by_name(tmp_path: Path, before: str, after: str,
                                                   said: str) -> None:
    text = render([make_base()])
    assert before in text
    (tmp_path / "bases.toml").write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(LockError) as caught:
        load_bases(tmp_path / "bases.toml")
    assert said in str(caught.value)
