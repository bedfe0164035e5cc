"""Declared patches into locks and back into bytes: found, kept, moved, lost, unresolved."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from patch_wheels import diff
from patched_cells import FIRST, Patched, patched_cell

from builder.cli import run
from builder.locking.lock import Lock, load_for, read_lock
from builder.patches import artifact
from builder.patches.diffs import digest_of, find, keep, normal_form, place
from builder.patches.load import load_series

OWN = diff("vllm/__init__.py", FIRST, 'WORD = "own"\n').decode()


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patched]:
    with patched_cell(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def resolved(at: Patched, monkeypatch: pytest.MonkeyPatch) -> Patched:
    """Let ``lock`` find the wheels that are locked already, as no index has them."""
    monkeypatch.setattr("builder.commands.lock.resolve", lambda cell, *_: read_lock(
        at.workspace.locks / f"{cell.id}.toml").model_copy(update={"patches": ()}))
    return at


def refresh(at: Patched) -> int:
    return run(["--matrix", str(at.matrix), "patch", "refresh"])


def locked(at: Patched) -> Lock:
    return load_for(at.cell, at.workspace.locks)


def test_a_repository_that_grows_changes_no_hash() -> None:
    change = OWN.encode().replace(b"--- a", b"index 1234567..89abcde 100644\n--- a")
    assert normal_form(change) == OWN.encode()
    assert normal_form(change.replace(b"1234567", b"12345678")) == OWN.encode()
    binary = (b"diff --git a/p.png b/p.png\nindex 12..34 100644\nGIT binary patch\nliteral 0\n"
              b"HcmV?d00001\n\n")
    assert normal_form(change + binary + change) == OWN.encode() + binary + OWN.encode()
    text = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-index a..b\n+a\rindex c..d\n"
    assert normal_form(text) == text


@pytest.mark.parametrize("how", ["pushed", "merged", "other bytes"])
def test_what_moved_is_an_error_with_both_sides_until_it_is_accepted(
        resolved: Patched, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    at = resolved
    at.declare()
    refresh(at)
    old = locked(at).patches[0]
    if how == "pushed":
        at.hosting.commit({"vllm/__init__.py": 'WORD = "pushed"\n'}, on="fix")
        at.hosting.open_pull(7, "fix")
    elif how == "merged":
        at.hosting.merge(7)
    else:
        at.hosting.other_bytes = b"diff --git a/t b/t\nnew file mode 100644\n"
    capsys.readouterr()
    assert run(["--matrix", str(at.matrix), "lock"]) == 6
    said = capsys.readouterr().err
    assert (old.head if how != "other bytes" else old.sha256) in said
    assert "patch -- refresh" in said
    assert locked(at).patches[0] == old
    assert refresh(at) == 0
    new = locked(at).patches[0]
    assert new != old
    assert (new.head if how != "other bytes" else new.sha256) in said
    assert run(["--matrix", str(at.matrix), "lock"]) == 0


@pytest.mark.parametrize("reachable", [True, False])
def test_another_name_or_glob_is_no_leave_to_take_what_was_pushed(
        resolved: Patched, reachable: bool) -> None:
    at = resolved
    at.declare()
    refresh(at)
    old = locked(at).patches[0]
    at.hosting.commit({"vllm/__init__.py": 'WORD = "pushed"\n'}, on="fix")
    at.hosting.open_pull(7, "fix")
    at.forget()
    at.declare("mended", exclude=["vllm/x.py"])
    at.hosting.faults = [] if reachable else [(404, {})] * 9
    assert run(["--matrix", str(at.matrix), "lock"]) == (6 if reachable else 0)
    if not reachable:
        new = locked(at).patches[0]
        assert (new.name, new.head, new.sha256) == ("mended", old.head, old.sha256)


@pytest.mark.parametrize(("required", "code"), [(True, 6), (False, 0)])
def test_one_that_cannot_be_reached_is_unresolved_and_never_invented(
        at: Patched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        required: bool, code: int) -> None:
    at.declare(required=required, pull=404)
    assert refresh(at) == 0
    patch = locked(at).patches[0]
    assert not patch.sha256
    assert "HTTP 404" in patch.why
    capsys.readouterr()
    assert run(["--matrix", str(at.matrix), "patch", "status"]) == code
    assert "unresolved" in capsys.readouterr().out
    run(["--matrix", str(at.matrix), "plan"])
    assert ("required patches are unresolved" in capsys.readouterr().out) is required


def test_a_locked_one_stays_while_upstream_cannot_be_reached(resolved: Patched) -> None:
    at = resolved
    at.declare()
    refresh(at)
    before = locked(at)
    at.hosting.faults = [(404, {})] * 3
    assert run(["--matrix", str(at.matrix), "lock"]) == 0
    assert locked(at) == before


def test_no_patch_no_question(resolved: Patched) -> None:
    at = resolved
    assert refresh(at) == 0
    assert run(["--matrix", str(at.matrix), "lock"]) == 0
    assert not at.hosting.requests
    assert load_series(at.workspace, at.cell, locked(at)) == {}


def test_damaged_bytes_in_the_cache_are_removed(tmp_path: Path) -> None:
    digest = keep(tmp_path, b"abc")
    assert find(tmp_path, digest) == b"abc"
    place(tmp_path, digest).write_bytes(b"abd")
    assert find(tmp_path, digest) is None
    assert not place(tmp_path, digest).exists()
    assert find(tmp_path, digest_of(b"never kept")) is None


@pytest.mark.parametrize("folder", ["bytes", "answers", "standings"])
@pytest.mark.parametrize("verb", ["status", "refresh"])
def test_a_cache_that_cannot_be_used_is_said_in_words(
        at: Patched, folder: str, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    at.declare()
    refresh(at)
    shutil.rmtree(at.workspace.cache / "patches")
    (at.workspace.cache / "patches").mkdir()
    (at.workspace.cache / "patches" / folder).write_text("a file")
    assert run(["--matrix", str(at.matrix), "patch", verb]) == 2
    assert "cache folder cannot be used" in capsys.readouterr().err


def test_a_registry_that_is_not_there_has_no_patches() -> None:
    assert artifact.pull("127.0.0.1:9/none", "0" * 64) is None


def test_a_plan_goes_on_where_a_patch_cannot_be_had(
        at: Patched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (at.matrix.parent / "own.diff").write_text(OWN)
    at.declare(file="own.diff")
    refresh(at)
    (at.matrix.parent / "own.diff").unlink()
    monkeypatch.setattr("builder.engine.client.Engine.connect", lambda *_, **__: None)
    assert run(["--matrix", str(at.matrix), "plan", "--engine"]) == 0
    assert "probe" in capsys.readouterr().out
