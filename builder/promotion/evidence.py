"""What proves that an image passed: records that are attached to its manifest, read and checked.

A record counts for one image only: it names the manifest's digest, or the digest of the
configuration that this manifest holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from builder import console
from builder import labels as label
from builder.errors import UsageError, VerdictError, command
from builder.limits import RECORD_BYTES
from builder.matrix.promotion import LEVELS, Promotion, Requirement
from builder.promotion.signing import SIGNATURE_TYPE, is_signed, sign_text
from builder.record.models import Record
from builder.record.reader import parse_json, record_of
from builder.registry.client import FailingError, OtherBytesError, TooLongError
from builder.registry.repository import Artifact, Manifest, Repository
from builder.text import unbroken

RECORD_TYPE = "application/vnd.sparkyard.record.v3+json"
LOST_TYPE = "application/vnd.sparkyard.lost.v1+json"
LOST_NOTE = label.OCI + "created"
NOTE = f"{label.PREFIX}record."
ATTACHED_NOTES = ("cell", "level", "recipe", "where", "verdict", "started")


class UnprovenError(VerdictError):
    """An image has not shown what its tag needs; the message lists the gaps."""


@dataclass(frozen=True)
class Refused:
    """An attached record that does not count, and why; its notes say what it was attached as."""

    artifact: Artifact
    reason: str

    def __str__(self) -> str:
        """Return it in one line."""
        return f"{self.artifact.digest[:19]}: {self.reason}"

    def note(self, name: str) -> str:
        """Return what the list of attached artifacts says of the record, say its verdict."""
        return self.artifact.notes.get(f"{NOTE}{name}", "")


@dataclass(frozen=True)
class Evidence:
    """The records of one manifest, and why others that are attached do not count.

    ``signed`` are the digests of passing records that one of the policy's keys signed. ``lost``
    says when the registry lost records: one that says fail may be among them.
    """

    repository: str
    manifest: Manifest
    records: tuple[Record, ...]
    refused: tuple[Refused, ...] = ()
    signed: frozenset[str] = frozenset()
    lost: tuple[Artifact, ...] = ()


@dataclass(frozen=True)
class Proof:
    """The manifest that may be promoted, and the digests of the records that prove it."""

    manifest: Manifest
    records: tuple[str, ...]


def attach_record(repository: Repository, manifest: Manifest, record: Record) -> str:
    """Attach a record to the manifest that it is about; raises VerdictError for another one."""
    if not is_about(record, manifest):
        raise VerdictError("this record is about another image", where=record.image_id,
                           next_step=f"make one of this image: {command('smoke', record.cell)}")
    document = record.document()
    data = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    notes = {f"{NOTE}{name}": str(document[name]) for name in ATTACHED_NOTES}
    return repository.attach(manifest, RECORD_TYPE, data,
                             {**notes, f"{NOTE}digest": record.digest}, "record.json")


def is_about(record: Record, manifest: Manifest) -> bool:
    """Say whether a record was made with this very image."""
    if manifest.digest in (record.image_digest, record.image_id):
        return True  # an engine with containerd's store calls an image by its manifest
    return bool(manifest.config) and record.image_id == manifest.config


def sign_record(repository: Repository, artifact: str, record: Record, key: Path) -> None:
    """Sign an attached record, unless it is signed by the key whose public half lies beside it."""
    public = key.with_suffix(".pub")
    with suppress(FailingError, OtherBytesError):  # what is damaged is mended by signing again
        if public.is_file() and has_signature(repository, artifact, record.digest, [public]):
            return
    attach_signature(repository, artifact, sign_text(record.digest, key))


def attach_signature(repository: Repository, artifact: str, signature: str) -> None:
    """Attach a signature to a record; ``artifact`` is the digest of the attached record.

    A list of signatures that the registry cannot read begins anew: one that is lost only refuses.
    """
    manifest = repository.manifest(artifact)
    assert manifest is not None  # it was attached a moment ago
    repository.mend_list(manifest, LOST_TYPE, {})
    repository.attach(manifest, SIGNATURE_TYPE, signature.encode(), {}, "record.json.sig")


def mend_evidence(repository: Repository, manifest: Manifest, time: str) -> None:
    """Begin the list of an image's records anew where the registry cannot read it any more.

    Evidence says so from then on, and the image is not promoted until the policy answers that.
    """
    if repository.mend_list(manifest, LOST_TYPE, {LOST_NOTE: time}):
        console.warn(f"the registry could not read any more what is attached to {repository.name}@"
                     f"{manifest.digest}: the list begins anew. Push from the other machines, too, "
                     "that had attached records to this image; promote says what to do then")


def gather(repository: Repository, digest: str, keys: Sequence[Path] = ()) -> Evidence:
    """Read every record that is attached to a manifest; raises VerdictError where it is gone.

    With ``keys`` the signatures of those that say pass are read and checked as well.
    """
    manifest = repository.manifest(digest)
    if manifest is None:
        raise VerdictError("the registry does not have this image", where=f"{repository.name}@"
                           f"{digest}", next_step=f"push it: {command('push', 'CELL')}")
    records, refused, signed = [], [], set()
    listed = repository.referrers(digest)
    for artifact in (one for one in listed if one.type == RECORD_TYPE):
        try:
            record = _record(repository.attached(artifact, digest), manifest)
            records.append(record)
            if record.passed and has_signature(repository, artifact.digest, record.digest, keys):
                signed.add(record.digest)
        except (UsageError, ValueError, OtherBytesError, TooLongError) as error:
            what = str(getattr(error, "what", error))
            refused.append(Refused(artifact, what.partition("\n")[0]))
    return Evidence(repository.name, manifest, tuple(records), tuple(refused), frozenset(signed),
                    tuple(one for one in listed if one.type == LOST_TYPE))


def has_signature(repository: Repository, artifact: str, text: str, keys: Sequence[Path]) -> bool:
    """Say whether a signature of the text by one of these keys is attached to an artifact.

    Raises NetworkError only where none is found and the registry could not read one of them.
    """
    unread: FailingError | OtherBytesError | None = None
    for one in repository.referrers(artifact, SIGNATURE_TYPE) if keys else ():
        try:
            data = repository.attached(one, artifact) or b""
        except (FailingError, OtherBytesError) as error:
            unread = error
            continue
        if any(is_signed(text, data.decode("ascii", "replace"), key) for key in keys):
            return True
    if unread:
        raise unread
    return False


def prove(evidence: Evidence, cell: str, needed: Requirement, policy: Promotion) -> Proof:
    """Return the proof that the image passed what is needed; raises VerdictError with the gaps.

    One record that says fail is enough to refuse, whatever the times in the records say: clocks
    go wrong, and an image that failed once and passed once is not reliable. For the same reason
    records that were lost refuse, and one that was attached as failed and cannot be read now,
    until the policy's ``ignored`` names them.
    """
    ignored = {entry.record for entry in policy.ignored}
    counted = [record for record in evidence.records
               if record.cell == cell and record.level != "bench" and record.is_conclusive]
    failed = [record for record in counted if not record.passed and record.digest not in ignored
              and (not needed.recipes or record.recipe in needed.recipes)]
    enough = [record for record in counted if record.passed and _is_enough(record, needed)]
    good = [record for record in enough if not policy.keys or record.digest in evidence.signed]
    missing = [recipe for recipe in needed.recipes
               if recipe not in {record.recipe for record in good}]
    lost = [one for one in evidence.lost if one.digest not in ignored]
    hidden = [one for one in evidence.refused
              if _said_fail(one, cell, needed) and one.artifact.digest not in ignored]
    gaps = [*(f"a record says fail: {describe(record)}" for record in failed),
            *(f"a record was attached as failed, and does not count now: {one}" for one in hidden),
            *(f"records were lost, {unbroken(one.notes.get(LOST_NOTE, 'once'))}; one may say fail"
              for one in lost),
            *(f"no key of the policy ({', '.join(policy.keys)}) signed: {describe(record)}"
              for record in enough if record not in good),
            *(f"no passing record of recipe {recipe}" for recipe in missing)]
    if not good and not missing:
        gaps.append("no passing record")
    if gaps:
        raise _unproven(evidence, cell, needed, counted, gaps,
                        [one.digest for one in (*lost, *(one.artifact for one in hidden))])
    return Proof(evidence.manifest, tuple(sorted(
        record.digest for record in good
        if not needed.recipes or record.recipe in needed.recipes)))


def describe(record: Record) -> str:
    """Return one record in a few words."""
    return unbroken(f"level {record.level}, {record.where}, {record.recipe}, {record.started}")


def demand(needed: Requirement) -> str:
    """Return what is needed in words."""
    recipes = f" with {', '.join(needed.recipes)}" if needed.recipes else ""
    return f"level {needed.level} on {' or '.join(needed.hardware)}{recipes}"


def _record(data: bytes | None, manifest: Manifest) -> Record:
    if data is None or len(data) > RECORD_BYTES:
        raise ValueError("it is missing, too long, or of another image")
    record = record_of(parse_json(data), "attached record")
    if not is_about(record, manifest):
        raise ValueError("it is a record of another image")
    return record


def _said_fail(refused: Refused, cell: str, needed: Requirement) -> bool:
    """Say whether a record that does not count was attached as one that refuses this cell."""
    return (refused.note("verdict") == "fail" and refused.note("cell") == cell
            and refused.note("level") != "bench"
            and (not needed.recipes or refused.note("recipe") in needed.recipes))


def _is_enough(record: Record, needed: Requirement) -> bool:
    return (record.level in LEVELS[LEVELS.index(needed.level):]
            and record.where in needed.hardware)


def _unproven(evidence: Evidence, cell: str, needed: Requirement, counted: Sequence[Record],
              gaps: Iterable[str], gone: Sequence[str]) -> UnprovenError:
    """Return the error; ``gone`` are digests of what may say fail, and cannot be read."""
    there = [f"attached: {describe(record)}, {record.verdict}" for record in counted]
    refused = [f"does not count: {reason}" for reason in evidence.refused]
    head = f"this image has not shown what its tag needs ({demand(needed)})"
    smoke = command("smoke", cell, "--level", needed.level, "--pull", "--image",
                    f"{evidence.repository}@{evidence.manifest.digest}")
    push = command("push", cell)
    again = (f"push from every machine that tested it ({push}); if that does not help, add to the "
             f"policy's ignored: {{ record = \"{gone[0]}\", reason = \"…\" }}"
             if gone else f"make a record of it ({smoke}), and attach it ({push}, or promote)")
    return UnprovenError("\n  ".join([head, *gaps, *there, *refused]),
                         where=evidence.manifest.digest, next_step=again)
