"""The statement of how an image was made: every input by its digest, and nothing of the machine."""

from __future__ import annotations

import json

from builder import labels as label
from builder.provenance import make_provenance
from tests.unit.test_sbom import BASE, DIGEST, PATCH, a_lock


def test_every_input_is_named_by_digest() -> None:
    lock = a_lock()
    labels = {label.INPUTS: "sha256:1", label.OCI + "revision": "f" * 40}
    said = json.loads(make_provenance(lock, BASE, labels, "r/cpu", DIGEST))
    assert said["subject"] == [{"name": "r/cpu", "digest": {"sha256": "d" * 64}}]
    definition = said["predicate"]["buildDefinition"]
    assert definition["internalParameters"]["inputs"] == "sha256:1"
    digests = [next(iter(one["digest"].values())) for one in definition["resolvedDependencies"]]
    assert {"f" * 40, lock.digest[7:], BASE.image_id[7:], PATCH.sha256,
            *(wheel.sha256 for wheel in lock.wheels)} == set(digests)


def test_it_is_the_same_each_time_and_without_a_checkout_names_no_commit() -> None:
    one, two = (make_provenance(a_lock(), BASE, {}, "r/cpu", DIGEST) for _ in range(2))
    assert one == two
    assert b"gitCommit" not in one
