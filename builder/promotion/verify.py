"""Is an image in a registry what is said of it: layers, lock, contents, records, and its tag's log.

Each finding names what it is about, so that whoever reads it knows what was altered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import tomli
from pydantic import ValidationError

from builder import labels as label
from builder.errors import NetworkError, VerdictError
from builder.locking.lock import Lock
from builder.promotion.cell import CellTags
from builder.promotion.contents import RemoteImage
from builder.promotion.evidence import Evidence, UnprovenError, gather, prove
from builder.promotion.installed import Installed, Step, read_installed
from builder.promotion.moving import UNVERIFIED, MovingTag
from builder.registry.client import OtherBytesError
from builder.registry.repository import Artifact, Repository
from builder.sbom import contents

LOCK_TYPE = "application/vnd.sparkyard.lock.v1+toml"
SBOM_TYPE = "application/vnd.cyclonedx+json"
SHOWN = 5  # names in one finding
IGNORED = {"setuptools", "wheel"}  # what Debian's own Python may bring


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, and what is wrong with it; nothing where it is good."""

    subject: str
    problem: str = ""
    seen: str = ""


def verify_image(tags: CellTags, image: RemoteImage, name: str, step: Step) -> list[Finding]:
    """Look at everything that is said of an image; ``name`` is the tag it was asked for by."""
    repository, digest = tags.repository, image.manifest.digest
    installed = read_installed(repository, image, step)
    lock = _lock(repository, image)
    findings = [*_layers(image, installed), lock_finding(lock, image, installed),
                *_contents(repository, digest, installed)]
    evidence = gather(repository, digest, tags.keys)
    findings += _records(tags, evidence, name)
    return [*findings, *_tag(tags, name, digest)]


def _layers(image: RemoteImage, installed: Installed) -> Iterator[Finding]:
    for problem in installed.damaged:
        yield Finding("layers", problem)
    if not installed.damaged:
        yield Finding("layers", seen=f"{len(image.layers)} layers have the bytes of their digests")


def lock_finding(lock: Lock | str, image: RemoteImage, installed: Installed) -> Finding:
    """Compare the lock's wheels with what is installed; a text says why there is no lock."""
    if isinstance(lock, str):
        return Finding("lock", lock)
    wanted = {wheel.name: image.labels.get(label.PATCHED + wheel.name, wheel.version)
              for wheel in lock.wheels}
    problem = _difference(wanted, installed.wheels, "the lock")
    return Finding("lock", problem, seen=f"{len(wanted)} wheels are those of the lock")


def _lock(repository: Repository, image: RemoteImage) -> Lock | str:
    documents = _documents(repository, image.manifest.digest, LOCK_TYPE)
    wanted, problem = image.labels.get(label.LOCK), "no lock is attached"
    for data in documents:
        try:
            lock = Lock.model_validate(tomli.loads(data.decode("utf-8")))
        except (ValueError, ValidationError, RecursionError):
            return "an attached lock cannot be read"
        if lock.digest == wanted:
            return lock
        problem = f"the attached lock is {lock.digest}, the image is of {wanted or 'none'}"
    return problem


def _contents(repository: Repository, digest: str, installed: Installed) -> Iterator[Finding]:
    """Compare every attached list of contents: one that is wrong is not made good by another."""
    documents = _documents(repository, digest, SBOM_TYPE)
    if not documents:
        yield Finding("contents", "no list of contents (SBOM) is attached")
    for data in documents:
        try:
            wheels, debs = contents(json.loads(data))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
            yield Finding("contents", "an attached list of contents (SBOM) cannot be read")
            continue
        problem = "; ".join(filter(None, (
            _difference(wheels, installed.wheels, "the SBOM"),
            _difference(debs, {name: {version} for name, version in installed.debs.items()},
                        "the SBOM"))))
        yield Finding("contents", problem, seen=f"{len(wheels)} wheels and {len(debs)} Debian "
                      "packages are those of the SBOM")


def _difference(said: Mapping[str, str], there: Mapping[str, set[str]], source: str) -> str:
    """Say what ``source`` names and the image does not have, and the reverse."""
    lines = [f"{name} is {' and '.join(sorted(there[name]))}, {source} says {version}"
             for name, version in sorted(said.items())
             if name in there and there[name] != {version}]
    lines += [f"{name} {version} is not installed, {source} names it"
              for name, version in sorted(said.items()) if name not in there]
    lines += [f"{name} {' and '.join(sorted(there[name]))} is installed, {source} does not name it"
              for name in sorted(there.keys() - said.keys() - IGNORED)]
    more = f"; and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "; ".join(lines[:SHOWN]) + more


def _records(tags: CellTags, evidence: Evidence, name: str) -> Iterator[Finding]:
    """Prove the image anew; behind the cell's own tag, less than its policy is not enough."""
    for reason in evidence.refused:
        yield Finding("record", f"an attached record does not count: {reason}")
    if tags.policy is None:
        yield Finding("record", seen=f"{len(evidence.records)} records; "
                      f"{tags.refusal.what if tags.refusal else 'there is no policy'}")
        return
    policy, lesser = tags.policy, tags.policy.unverified
    needed = [policy, *([lesser] if lesser and name != tags.cell else [])]
    for number, requirement in enumerate(needed):
        try:
            proof = prove(evidence, tags.cell, requirement, policy)
        except UnprovenError as error:
            if number == len(needed) - 1:
                yield Finding("record", error.what)
            continue
        clause = "" if requirement is policy else "; enough for the unverified tag only"
        signed = f", signed by {' or '.join(policy.keys)}" if policy.keys else ""
        yield Finding("record", seen=f"{len(proof.records)} records prove it{signed}{clause}")
        return


def _tag(tags: CellTags, name: str, digest: str) -> Iterator[Finding]:
    """Check a moving tag against its log; other tags have none."""
    if tags.policy is None and name in (tags.cell, f"{tags.cell}{UNVERIFIED}"):
        yield Finding("tag", "the matrix never promotes this cell: the tag was moved by hand, or "
                      "before the matrix said so")
    tag = next((one for one in tags.all() if one.tag == name), None)
    if tag is not None:
        yield Finding("tag", *_logged(tag, digest))


def _logged(tag: MovingTag, digest: str) -> tuple[str, str]:
    try:
        entries = tag.history()
    except (VerdictError, NetworkError) as error:
        return f"the log of {tag.tag} cannot be followed: {error.what}", ""
    if digest not in {one.entry.target for one in entries}:
        return f"the log of {tag.tag} does not know this image: the tag was moved by hand", ""
    if entries[-1].entry.target != digest:
        return (f"the log of {tag.tag} says {entries[-1].entry.target}; a run was cut off, or the "
                "tag was moved by hand"), ""
    return "", f"entry {entries[-1].entry.number} of the log of {tag.tag} names it"


def _documents(repository: Repository, digest: str, kind: str) -> list[bytes]:
    """Return the attached documents of a type; a damaged one is empty."""
    found = [_bytes(repository, artifact, digest)
             for artifact in repository.referrers(digest, kind)]
    return [data for data in found if data is not None]


def _bytes(repository: Repository, artifact: Artifact, digest: str) -> bytes | None:
    try:
        return repository.attached(artifact, digest)
    except OtherBytesError:
        return b""
