"""Names that one part of the matrix gives and another uses, and how many cells it makes."""

from __future__ import annotations

from typing import Any

import pytest
from matrices import small

from builder.matrix.models import MOST_CELLS
from builder.matrix.references import wrong_references


def places(raw: dict[str, Any]) -> dict[str, str]:
    return {problem.where: problem.what for problem in wrong_references(raw)}


def test_a_good_matrix_has_no_wrong_reference() -> None:
    assert places(small()) == {}


def test_wrong_references_are_found_beside_misshapen_parts() -> None:
    raw = small()
    raw["images"]["tf5"]["torch"] = {"spec": 3}
    raw["images"]["cpu"]["base"] = "slin"
    raw["images"]["odd"] = 7
    raw["patches"] = {"p": {"images": ["tf6*"]}}
    assert places(raw) == {"images.cpu.base": 'there is no base "slin"',
                           "patches.p.images": 'no image matches "tf6*"'}


def test_an_axis_product_beyond_all_measure_is_refused_before_it_is_made() -> None:
    raw = small()
    versions = [f"1.{number}" for number in range(1600)]
    raw["images"]["tf5"] |= {"torch": versions, "flashinfer": versions}
    (problem,) = wrong_references(raw)
    assert problem.where == "images.tf5"
    assert f"10,240,000 cells; at most {MOST_CELLS:,}" in problem.what


def test_many_images_count_together_and_includes_too() -> None:
    raw = small()
    raw["images"]["tf5"]["include"] = [{"vllm": f"1.{n}"} for n in range(MOST_CELLS - 100)]
    assert "images" not in places(raw)
    raw["images"]["cpu"]["vllm"] = [f"1.{number}" for number in range(200)]
    assert "cells together" in places(raw)["images"]


@pytest.mark.parametrize(("change", "where"), [
    ({"exclude": [{"vllm": "9"}]}, "images.tf5.exclude.0.vllm"),
    ({"include": [{"vllm": "?"}]}, "images.tf5.include.0.vllm"),
    ({"indexes": ["whels"]}, "images.tf5.indexes"),
    ({"gpu": None}, "images.tf5.cuda")])
def test_each_wrong_choice_is_at_its_key(change: dict[str, Any], where: str) -> None:
    raw = small()
    raw["images"]["tf5"] |= change
    assert where in places(raw)


def test_an_override_of_vllm_itself_is_refused_and_of_another_axis_is_not() -> None:
    raw = small()
    raw["images"]["tf5"]["torch"] = {"spec": "2.11.0", "override": True}
    assert places(raw) == {}
    raw["images"]["tf5"]["vllm"] = ["0.21.0", {"spec": "0.20.2", "override": True}]
    assert "override has no meaning for vllm" in places(raw)["images.tf5.vllm"]


def test_a_gpu_image_is_promoted_on_records_of_that_gpu_alone() -> None:
    raw = small()
    raw["images"]["tf5"]["promote"] = {"level": "2", "hardware": ["gb10", "cpu"]}
    raw["images"]["cpu"]["promote"] = {"level": "2", "hardware": ["cpu"]}
    assert places(raw) == {
        "images.tf5.promote.hardware": 'a record of "cpu" proves nothing about sm_121, which '
                                       "images.tf5 is made for"}


def test_the_common_policy_is_one_for_gpu_images_too() -> None:
    raw = small()
    raw["promote"] = {"level": "2", "hardware": ["cpu"]}
    assert list(places(raw)) == ["promote.hardware"]
    raw["images"]["tf5"]["promote"] = {"level": "2", "hardware": ["gb10"]}
    assert places(raw) == {}


def test_a_base_names_a_snapshot_service_that_is_there() -> None:
    raw = small()
    raw["bases"]["slim"]["snapshot"] = "debain"
    raw["snapshots"] = {"debian": {}}
    assert places(raw) == {"bases.slim.snapshot": 'there is no snapshot "debain"'}
    raw["bases"]["slim"]["snapshot"] = "debian"
    assert places(raw) == {}


@pytest.mark.parametrize(("axis", "value"), [
    ("vllm", ">=2,<1"), ("transformers", {"spec": ">6,<6", "override": True}),
    ("torch", ["2.0", ">=3,<2"])])
def test_a_range_in_which_no_version_can_be_is_named_by_its_key(axis: str, value: Any) -> None:
    raw = small()
    raw["images"]["cpu"][axis] = value
    found = places(raw)
    assert "no version can be in" in found[f"images.cpu.{axis}"]
    raw["images"]["cpu"][axis] = ">=1,<2"
    assert places(raw) == {}
