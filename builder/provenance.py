"""How an image was made, as SLSA provenance in an in-toto statement: from which bytes, by what.

It names no time and no host, and claims no SLSA level: whoever can push can write it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from builder import labels as label
from builder.locking.base_lock import LockedBase
from builder.locking.lock import Lock

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
REPOSITORY = "https://github.com/sparkyard/sparkyard"


def make_provenance(lock: Lock, base: LockedBase, labels: Mapping[str, str], name: str,
                    digest: str) -> bytes:
    """Return the statement about the image ``name`` with this manifest digest."""
    statement = {
        "_type": STATEMENT, "predicateType": PREDICATE,
        "subject": [{"name": name, "digest": _digest(digest)}],
        "predicate": {
            "buildDefinition": {
                "buildType": f"{REPOSITORY}/blob/main/docs/layers.md",
                "externalParameters": {"cell": lock.cell, "platform": base.platform,
                                       "intent": lock.intent},
                "internalParameters": {"inputs": labels.get(label.INPUTS, "")},
                "resolvedDependencies": list(_dependencies(lock, base, labels)),
            },
            "runDetails": {"builder": {"id": REPOSITORY}},
        }}
    return json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()


def _dependencies(lock: Lock, base: LockedBase, labels: Mapping[str, str]
                  ) -> Iterator[dict[str, Any]]:
    revision = labels.get(label.OCI + "revision")
    if revision:
        yield {"uri": f"git+{REPOSITORY}@{revision}", "digest": {"gitCommit": revision}}
    yield {"name": f"locks/{lock.cell}.toml", "digest": _digest(lock.digest)}
    yield {"name": f"base {base.name} {base.platform}", "digest": _digest(base.image_id)}
    for wheel in lock.wheels:
        yield {"uri": f"pkg:pypi/{wheel.name}@{wheel.version}?file_name={wheel.file}",
               "digest": {"sha256": wheel.sha256}}
    for patch in lock.patches:
        if patch.sha256:
            yield {"name": f"patch {patch.name} ({patch.source})",
                   "digest": {"sha256": patch.sha256}}


def _digest(text: str) -> dict[str, str]:
    return {"sha256": text.removeprefix("sha256:")}
