"""What is in an image, as a CycloneDX document: from the lock, the base's lock and the wheels.

Each wheel has its sha256 and licence, each Debian package its sha256, and each patch its diff's.
The document holds no time and no host, so the same image always has the same bytes of it.
"""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from builder import labels as label
from builder.files import ZIP_FAULTS
from builder.limits import MODULE_BYTES
from builder.locking.base_lock import LockedBase, LockedDeb
from builder.locking.lock import Lock, LockedPatch, LockedWheel
from builder.tarball import MTIME

SPACE = uuid.UUID("5e0f8c7e-4a55-5a4b-9c0e-1b6a5a1d0f11")  # of our documents' serial numbers
LICENCE_CHARS = 200  # a longer one is a licence's whole text
Licences = Callable[[LockedWheel], str]


def make_sbom(lock: Lock, base: LockedBase | None, labels: Mapping[str, str], digest: str,
              licence: Licences) -> bytes:
    """Return the document of an image with this manifest digest; ``labels`` are the image's."""
    name = labels.get(label.CELL, lock.cell)
    bom = Bom(serial_number=uuid.uuid5(SPACE, digest))
    bom.metadata.timestamp = datetime.fromtimestamp(MTIME, UTC)
    bom.metadata.component = Component(
        type=ComponentType.CONTAINER, name=name, version=digest, bom_ref=digest,
        properties=[Property(name=label.LOCK, value=lock.digest)])
    parts = list(_components(lock, base, labels, licence))
    bom.components.update(parts)
    bom.register_dependency(bom.metadata.component, parts)
    text = JsonV1Dot6(bom).output_as_string()
    return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).encode()


def contents(document: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the wheels and the Debian packages that a document names, each with its version."""
    wheels: dict[str, str] = {}
    debs: dict[str, str] = {}
    listed = document.get("components")
    for one in listed if isinstance(listed, list) else []:
        if not isinstance(one, dict):
            continue
        purl, name, version = (str(one.get(key, "")) for key in ("purl", "name", "version"))
        if purl.startswith("pkg:pypi/"):
            wheels[canonicalize_name(name)] = version
        elif purl.startswith("pkg:deb/"):
            debs[name] = version
    return wheels, debs


def licence_of(wheel: Path) -> str:
    """Return the licence that a wheel's metadata names; empty where it names none."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist()
                        if name.endswith(".dist-info/METADATA") and name.count("/") == 1)
            with archive.open(name) as stream:
                text = stream.read(MODULE_BYTES).decode("utf-8", "replace")
    except (OSError, StopIteration, *ZIP_FAULTS):
        return ""
    fields = HeaderParser().parsestr(text)
    for field in ("License-Expression", "License"):
        value = " ".join(str(fields.get(field) or "").split())
        if value and value.upper() != "UNKNOWN" and len(value) <= LICENCE_CHARS:
            return value
    classified = [str(line).rpartition(" :: ")[2] for line in fields.get_all("Classifier", [])
                  if str(line).startswith("License :: ")]
    return " AND ".join(dict.fromkeys(classified))


def _components(lock: Lock, base: LockedBase | None, labels: Mapping[str, str],
                licence: Licences) -> Iterator[Component]:
    for wheel in lock.wheels:
        version = labels.get(label.PATCHED + wheel.name, wheel.version)
        yield _wheel(wheel, version, licence(wheel))
    for deb in base.packages if base else ():
        yield _deb(deb)
    for patch in lock.patches:
        if patch.sha256:
            yield _patch(patch)


def _wheel(wheel: LockedWheel, version: str, licence: str) -> Component:
    purl = PackageURL("pypi", name=wheel.name, version=version)
    notes = [Property(name="sparkyard:file", value=wheel.file),
             Property(name="sparkyard:index", value=wheel.index)]
    if version != wheel.version:
        notes.append(Property(name="sparkyard:locked-version", value=wheel.version))
    return Component(
        type=ComponentType.LIBRARY, name=wheel.name, version=version, purl=purl,
        bom_ref=purl.to_string(), hashes=_sha256(wheel.sha256), properties=notes,
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [])


def _deb(deb: LockedDeb) -> Component:
    purl = PackageURL("deb", "debian", deb.name, deb.version, {"arch": deb.arch})
    return Component(type=ComponentType.LIBRARY, name=deb.name, version=deb.version, purl=purl,
                     bom_ref=purl.to_string(), hashes=_sha256(deb.sha256) if deb.sha256 else [])


def _patch(patch: LockedPatch) -> Component:
    return Component(
        type=ComponentType.FILE, name=f"patch {patch.name}", version=patch.head or "file",
        bom_ref=f"patch:{patch.sha256}", hashes=_sha256(patch.sha256),
        properties=[Property(name="sparkyard:source", value=patch.source),
                    Property(name="sparkyard:wheel", value=patch.wheel)])


def _sha256(digest: str) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=digest)]
