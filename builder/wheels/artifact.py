"""Compiled files beside the images: an OCI artifact for each key, and one for each wheel.

Under ``compiled-KEY`` lie the files and how they were made; under ``wheel-SHA256`` lies how the
wheel of a lock is put together from them and the published wheel, which stays on its own index.
Every blob is checked against its digest, so what is taken is what was compiled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from builder import labels as label
from builder.errors import IntegrityError, NetworkError
from builder.files import disk_errors, require_space
from builder.limits import SETTINGS_BYTES
from builder.model import Frozen
from builder.registry.client import Client
from builder.registry.manifest import MANIFEST_TYPE, document, put_manifest
from builder.registry.reference import parse
from builder.registry.repository import EMPTY, EMPTY_DESCRIPTOR, Repository
from builder.registry.upload import OCTETS, Blob, Uploader
from builder.wheels.assemble import WheelRecord
from builder.wheels.order import Rebuilt

Model = TypeVar("Model", bound=Frozen)
REPOSITORY = "wheels"
COMPILED_TYPE = "application/vnd.sparkyard.compiled.v1+json"
WHEEL_TYPE = "application/vnd.sparkyard.wheel.v1+json"
TITLE = f"{label.OCI}title"
PAUSE_S = 0.03  # of the first retry: without a registry, the work goes on within half a second


def compiled_name(registry: str, key: str) -> str:
    """Return the artifact's name for a key."""
    return f"{registry}/{REPOSITORY}:compiled-{key}"


def wheel_name(registry: str, sha256: str) -> str:
    """Return the artifact's name for a wheel."""
    return f"{registry}/{REPOSITORY}:wheel-{sha256}"


def push(registry: str, rebuilt: Rebuilt, folder: Path, journals: Path) -> str:
    """Push what was compiled, unless it is there; return the artifact's name.

    Raises NetworkError where the registry does not take it.
    """
    name = compiled_name(registry, rebuilt.key)
    files = [Blob(f"sha256:{file.sha256}", file.size, folder / file.path)
             for file in rebuilt.files]
    facts = _bytes(rebuilt.model_dump_json().encode())
    _put(name, COMPILED_TYPE, [facts, *files], ["", *(file.path for file in rebuilt.files)],
         journals)
    return name


def push_record(registry: str, sha256: str, record: WheelRecord, journals: Path) -> str:
    """Push how a wheel is put together; return the artifact's name. Raises NetworkError."""
    name = wheel_name(registry, sha256)
    _put(name, WHEEL_TYPE, [_bytes(record.model_dump_json().encode())], [""], journals)
    return name


def pull(registry: str, key: str, output: Path,
         check: Callable[[Rebuilt], object] = lambda _given: None) -> Rebuilt | None:
    """Fill ``output`` with what was compiled under a key; None where no registry has it whole.

    ``check`` is told what the registry has before any of it is fetched, and raises what it refuses.
    Raises IntegrityError where the registry gives other bytes than those of a digest.
    """
    repository = _repository(compiled_name(registry, key))
    rebuilt = _facts(repository, f"compiled-{key}", Rebuilt)
    if rebuilt is None or rebuilt.key != key:
        return None
    check(rebuilt)
    require_space(output, sum(file.size for file in rebuilt.files), "for compiled files")
    for file in rebuilt.files:
        target = output / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with disk_errors(output, "while compiled files were fetched"):
                actual = _write(target, repository.stream(f"sha256:{file.sha256}", file.size))
        except NetworkError:
            return None
        if actual != file.sha256:
            raise IntegrityError(f"{file.path} of {repository.name}", expected=file.sha256,
                                 actual=actual, next_step="the registry is damaged, or another "
                                 "server answers")
    return rebuilt


def pull_record(registry: str, sha256: str) -> WheelRecord | None:
    """Return how a wheel is put together; None where no registry says so."""
    return _facts(_repository(wheel_name(registry, sha256)), f"wheel-{sha256}", WheelRecord)


def _repository(name: str) -> Repository:
    return Repository(Client(parse(name), PAUSE_S))


def _facts(repository: Repository, tag: str, model: type[Model]) -> Model | None:
    """Return the first layer of an artifact as a model; None where it is not there or not one."""
    try:
        manifest = repository.manifest(tag)
        layers = manifest.value.get("layers") if manifest else None
        if not isinstance(layers, list) or not layers or not isinstance(layers[0], dict):
            return None
        data = repository.blob(str(layers[0].get("digest")))
        return model.model_validate_json(data) if data else None
    except (NetworkError, ValueError):
        return None


def _put(name: str, kind: str, blobs: list[Blob], titles: list[str], journals: Path) -> None:
    client = Client(parse(name), PAUSE_S)
    uploader = Uploader(client, journals)
    for blob in (EMPTY, *blobs):
        uploader.deliver(blob)
    layers = [{"mediaType": OCTETS if title else kind, "digest": blob.digest, "size": blob.size,
               **({"annotations": {TITLE: title}} if title else {})}
              for blob, title in zip(blobs, titles, strict=True)]
    put_manifest(client, document({
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE, "artifactType": kind,
        "config": EMPTY_DESCRIPTOR, "layers": layers}), client.reference.tag)


def _bytes(data: bytes) -> Blob:
    assert len(data) <= SETTINGS_BYTES
    return Blob(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data), data)


def _write(target: Path, chunks: Iterator[bytes]) -> str:
    state = hashlib.sha256()
    with target.open("wb") as handle:
        for chunk in chunks:
            handle.write(chunk)
            state.update(chunk)
    return state.hexdigest()
