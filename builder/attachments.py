"""What is attached to a pushed image: records, lock, contents, provenance, the gate's findings.

All of it depends on the image alone, so that a second push attaches nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import labels as label
from builder.bases.state import read_bases
from builder.errors import SparkyardError
from builder.gate.run import gate_cell, own_base
from builder.locking.lock import Lock, load_for, render
from builder.matrix.cells import Cell
from builder.promotion.evidence import attach_record, is_about, mend_evidence, sign_record
from builder.promotion.retention import note_pushed
from builder.promotion.signing import IDENTITY
from builder.promotion.verify import LOCK_TYPE, SBOM_TYPE
from builder.provenance import make_provenance
from builder.record.models import Record, now, records_folder
from builder.record.reader import read_records
from builder.registry.client import FailingError, OtherBytesError
from builder.registry.repository import Manifest, Repository
from builder.report.gate import sarif
from builder.sbom import licence_of, make_sbom
from builder.store.content_store import Store
from builder.workspace import Workspace

PROVENANCE_TYPE = "application/vnd.in-toto+json"
SARIF_TYPE = "application/sarif+json"


@dataclass(frozen=True)
class Attached:
    """What was attached: the number of records, and the names of the documents."""

    records: int
    documents: tuple[str, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Documents:
    """What is attached besides records, by its type: file name and bytes; and what is left out."""

    by_type: Mapping[str, tuple[str, bytes]]
    left_out: tuple[str, ...] = ()


def attach_all(workspace: Workspace, cell: Cell, repository: Repository, manifest: Manifest,
               labels: Mapping[str, str], key: Path | None = None,
               documents: Documents | None = None) -> Attached:
    """Attach everything that this machine knows of an image to its manifest in the registry.

    With ``key``, a private key of cosign, the records are signed; an identity signs images alone.
    ``documents`` are those of ``make_documents``, where they are made already.
    """
    mend_evidence(repository, manifest, now())
    note_pushed(repository, manifest, now())
    records = own_records(workspace, manifest)
    for record in records:
        artifact = attach_record(repository, manifest, record)
        if key and key != IDENTITY:
            sign_record(repository, artifact, record, key)
    if documents is None:
        documents = make_documents(workspace, cell, repository, manifest.digest, labels)
    for kind, (title, data) in documents.by_type.items():
        repository.attach(manifest, kind, data, {label.CELL: cell.id}, title)
    return Attached(len(records), tuple(title for title, _ in documents.by_type.values()),
                    documents.left_out)


def _has_contents(repository: Repository, digest: str) -> bool:
    """Say whether the registry has an image's list of contents, and can read it."""
    try:
        return any(repository.attached(one, digest) is not None
                   for one in repository.referrers(digest, SBOM_TYPE))
    except (FailingError, OtherBytesError):
        return False


def own_records(workspace: Workspace, manifest: Manifest) -> Sequence[Record]:
    """Return this machine's conclusive records of an image, those that say fail too."""
    return [record for record in read_records(records_folder(workspace.cache))
            if record.is_conclusive and is_about(record, manifest)]


def make_documents(workspace: Workspace, cell: Cell, repository: Repository, digest: str,
                   labels: Mapping[str, str]) -> Documents:
    """Return lock, contents, provenance and findings of an image whose manifest has this digest.

    They need the lock that the image was built from; where this checkout has another one by now,
    they are left out, and the answer says so. The manifest itself need not be there yet.
    """
    lock = load_for(cell, workspace.locks)
    if lock.digest != labels.get(label.LOCK):
        return Documents({}, ("the lock has changed since the image was built",))
    base = read_bases(workspace).get((cell.base_name, cell.platform))
    documents = {LOCK_TYPE: (f"{cell.id}.toml", render(lock).encode())}
    left_out = ["the base has changed since the image was built: no contents"]
    if base is not None and base.image_id == labels.get(label.PREFIX + "base.id"):
        store, left_out = Store(workspace.cache), []
        # One that is there stays: wheels that are gone from the store had a licence then.
        if not _has_contents(repository, digest):
            documents[SBOM_TYPE] = ("bom.cdx.json", make_sbom(
                lock, base, labels, digest, lambda wheel: licence_of(store.wheel_path(wheel))))
        documents[PROVENANCE_TYPE] = ("provenance.json", make_provenance(
            lock, base, labels, repository.name, digest))
    findings = _findings(workspace, cell, lock)
    if findings is not None:
        documents[SARIF_TYPE] = ("gate.sarif.json", findings)
    return Documents(documents, tuple(left_out))


def _findings(workspace: Workspace, cell: Cell, lock: Lock) -> bytes | None:
    """Return the gate's findings that are kept of this lock; None where there are none."""
    source = own_base(workspace, read_bases(workspace).get((cell.base_name, cell.platform)))
    try:
        report = gate_cell(workspace, cell, lock, source, _no_wheels)
    except NotKeptError:
        return None
    value: dict[str, Any] = sarif([report], workspace.locks)
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class NotKeptError(SparkyardError):
    """The gate's verdict is not in the cache, and is not worth reading gigabytes again."""


def _no_wheels() -> Any:
    raise NotKeptError("the verdict of the gate is not kept")
