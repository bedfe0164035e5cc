"""Locks: the same bytes for the same facts, and nothing stale or damaged is ever used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st
from matrices import small

from builder.errors import LockError
from builder.files import write_text
from builder.locking.lock import (
    Lock,
    LockedPatch,
    LockedWheel,
    load_for,
    read_lock,
    read_reasons,
    render,
    write_lock,
    write_reasons,
)
from builder.matrix.cells import expand
from builder.matrix.load import parse_matrix

CELL = expand(parse_matrix(small()))[0]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="/\\"), max_size=12)


def wheel(name: str = "torch", version: str = "2.11.0") -> LockedWheel:
    return LockedWheel(name=name, version=version, file=f"{name}-{version}-py3-none-any.whl",
                       sha256="0" * 64, size=7, index="default")


def lock(*wheels: LockedWheel) -> Lock:
    return Lock(cell=CELL.id, intent=CELL.intent_digest, python="3.12",
                platform="aarch64-manylinux_2_39", wheels=wheels or (wheel(),))


def test_a_lock_survives_writing_and_reading(tmp_path: Path) -> None:
    path = write_lock(tmp_path, lock(wheel("b"), wheel("a")))
    again = read_lock(path)
    assert render(again) == path.read_text(encoding="utf-8") == render(lock(wheel("a"), wheel("b")))
    assert again.digest == lock(wheel("a"), wheel("b")).digest
    assert sorted(child.name for child in tmp_path.iterdir()) == ["SHA256SUMS", "tf5.toml"]


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=4))
def test_any_text_is_written_so_that_toml_reads_it_back(rows: list[tuple[str, str, str]]) -> None:
    wheels = tuple(LockedWheel(name=name, version=version, file="a.whl", sha256="f" * 64, size=0,
                               index=index) for name, version, index in rows)
    one = lock(*wheels) if wheels else lock()
    read = Lock.model_validate(tomli.loads(render(one)))
    assert sorted(read.wheels, key=repr) == sorted(one.wheels, key=repr)


def unresolved(why: str, **changes: str) -> LockedPatch:
    return LockedPatch(**{"name": "p", "source": "a/b#1", "wheel": "torch", "intent": "sha256:1",
                          "why": why, **changes})


def test_why_a_patch_is_unresolved_is_no_part_of_the_digest() -> None:
    """The same cell, locked behind another network: its images stay what they are."""
    here, there = (lock().model_copy(update={"patches": (unresolved(why),)})
                   for why in ("no connection", "the service answered 503"))
    assert render(here) != render(there)
    assert here.digest == there.digest


def test_everything_else_about_a_patch_is_part_of_the_digest() -> None:
    found = LockedPatch(name="p", source="a/b#1", wheel="torch", intent="sha256:1",
                        base="1" * 40, head="2" * 40, sha256="3" * 64, size=1)
    variants = [(), (unresolved("x"),), (unresolved("x", intent="sha256:2"),), (found,),
                (found.model_copy(update={"sha256": "4" * 64}),)]
    digests = {lock().model_copy(update={"patches": patches}).digest for patches in variants}
    assert len(digests) == len(variants)


def test_one_changed_wheel_changes_one_line() -> None:
    before = render(lock(wheel("a"), wheel("b"))).splitlines()
    after = render(lock(wheel("a"), wheel("b", "3"))).splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_no_address_is_ever_in_a_lock() -> None:
    assert "://" not in render(lock())


def test_a_lock_of_another_intent_is_refused_with_the_mend(tmp_path: Path) -> None:
    write_lock(tmp_path, lock().model_copy(update={"intent": "sha256:old"}))
    with pytest.raises(LockError, match="has changed since") as caught:
        load_for(CELL, tmp_path)
    assert caught.value.next_step == "lock it again with `./nox -s lock -- tf5`"


def test_a_good_lock_is_handed_out(tmp_path: Path) -> None:
    write_lock(tmp_path, lock())
    assert load_for(CELL, tmp_path).size == 7


@pytest.mark.parametrize("text", [
    "", "lock_version = 2", "wheels = [", "\x00",
    render(lock()).replace("0" * 64, "short"), render(lock()).replace("torch-2.11.0", "../torch")])
def test_a_damaged_lock_is_named_and_never_used(tmp_path: Path, text: str) -> None:
    (tmp_path / "tf5.toml").write_text(text, encoding="utf-8")
    with pytest.raises(LockError, match="damaged"):
        load_for(CELL, tmp_path)


def test_a_missing_lock_is_named(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="not locked"):
        load_for(CELL, tmp_path)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_reasons_survive_and_are_sorted(tmp_path: Path) -> None:
    assert read_reasons(tmp_path) == {}
    write_reasons(tmp_path, [("b", 'no "x"\nhere'), ("a", "why")])
    assert list(read_reasons(tmp_path).items()) == [("a", "why"), ("b", 'no "x"\nhere')]
    (tmp_path / "unlocked.toml").write_text("[")
    with pytest.raises(LockError, match="the file is damaged"):
        read_reasons(tmp_path)
    (tmp_path / "unlocked.toml").write_text("[reasons]\na = 1\n")
    with pytest.raises(LockError, match=r"reasons\.a"):
        read_reasons(tmp_path)


GOOD = render(lock(wheel("alpha"), wheel("beta")))
ALPHA, BETA = (line for line in GOOD.splitlines() if "name =" in line)


@pytest.mark.parametrize(("before", "after", "said"), [
    ("lock_version = 1\n", "lock_version = 1\nnote = 1\n", "note: unknown key"),
    ("size = 7", "size = 7, note = 1", "wheels.0.note: unknown key"),
    ("size = 7", "size = 0", "wheels.alpha: size: no wheel has 0 bytes"),
    ("size = 7", "size = -7", "wheels.0.size"),
    ("size = 7", "size = 1e400", "wheels.0.size"),
    (ALPHA, f"{ALPHA}\n{ALPHA}", 'two wheels have the name "alpha"'),
    (f"{ALPHA}\n{BETA}", f"{BETA}\n{ALPHA}", "they are not sorted by name"),
    ('name = "alpha"', 'name = "Alpha"', "the entry says Alpha 2.11.0"),
    ('version = "2.11.0"', 'version = "2.11.1"', "the entry says alpha 2.11.1"),
    ('version = "2.11.0"', 'version = ">=1"', "version: '>=1' is not a version"),
    ('version = "2.11.0"', 'version = "*"', "version: '*' is not a version"),
    ('version = "2.11.0"', 'version = "\\u0000"', "is not a version"),
    ("alpha-2.11.0-py3-none-any.whl", "alpha.whl", "is not the file name of a wheel"),
    ("alpha-2.11.0-py3-none-any.whl", "alpha-2.11.0-py3-none-any\\u0000.whl", "wheels.0.file"),
    ("alpha-2.11.0-py3-none-any.whl", "alpha-2.11.0-py3-none-a\\nny.whl", "wheels.0.file"),
    ("alpha-2.11.0-py3", f"alpha-2.11.0-{'9' * 5000}-py3", "is not the file name of a wheel"),
    ('version = "2.11.0"', f'version = "{"9" * 5000}"', "is not a version"),
    ('cell = "tf5"', 'cell = "cpu"', 'it is the lock of "cpu", not of "tf5"'),
    ('index = "default"', 'index = "nowhere"', '"nowhere" is not an index of this cell'),
    ('index = "default"', 'index = "wheels"', 'does not ask "wheels" for this package'),
    ('intent = "', f'deep = {"[" * 20_000}\nintent = "', "nested too deeply"),
])
def test_each_edit_of_a_lock_is_refused_by_name(tmp_path: Path, before: str, after: str,
                                                said: str) -> None:
    assert before in GOOD
    (tmp_path / "tf5.toml").write_text(GOOD.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(LockError) as caught:
        load_for(CELL, tmp_path)
    assert said in str(caught.value)
    assert "./nox -s lock -- tf5" in caught.value.next_step


def test_all_faults_of_a_lock_come_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("size = 7", "size = 0").replace('"tf5"', '"cpu"')
    (tmp_path / "tf5.toml").write_text(text, encoding="utf-8")
    with pytest.raises(LockError) as caught:
        read_lock(tmp_path / "tf5.toml")
    assert caught.value.what.splitlines() == [
        "the lock is damaged, 3 faults:", '  cell: it is the lock of "cpu", not of "tf5"',
        "  wheels.alpha: size: no wheel has 0 bytes", "  wheels.beta: size: no wheel has 0 bytes"]


def test_a_patch_of_a_wheel_that_is_not_locked_is_refused(tmp_path: Path) -> None:
    patched = lock().model_copy(update={"patches": (
        unresolved("x", wheel="vllm"), unresolved("x", wheel="vllm"))})
    write_lock(tmp_path, patched)
    with pytest.raises(LockError) as caught:
        read_lock(tmp_path / "tf5.toml")
    assert 'two patches have the name "p"' in caught.value.what
    assert 'the wheel "vllm" is not in this lock' in caught.value.what


def test_a_pipe_or_device_in_the_place_of_a_lock_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tf5.toml")
    with pytest.raises(LockError, match="regular file"):
        read_lock(tmp_path / "tf5.toml")
