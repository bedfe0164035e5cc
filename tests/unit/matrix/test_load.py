"""``matrix.toml``: every error at once, and a schema that editors and this reader share."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import small

from builder.errors import ConfigError
from builder.matrix.cells import expand
from builder.matrix.load import json_schema, load_matrix, parse_matrix

ROOT = Path(__file__).parents[3]


def problems(raw: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_matrix(raw)
    return {problem.where: f"{problem.what} {problem.next_step}"
            for problem in caught.value.problems}


def test_the_committed_matrix_is_good() -> None:
    matrix = load_matrix(ROOT / "matrix.toml")
    assert {"tf5", "latest", "tf5-0.19", "node", "cpu", "cpu-arm64"} <= set(matrix.images)


def test_errors_of_shape_and_wrong_names_come_together() -> None:
    raw = small()
    raw["images"]["tf5"]["platfrom"] = "linux/arm64"
    raw["images"]["tf5"]["vllm"] = "0.x"
    raw["images"]["tf5"]["base"] = ["cdua", "slim"]
    raw["images"]["cpu"]["indexes"] = ["whels"]
    raw["indexs"] = {}
    found = problems(raw)
    assert "perhaps you meant \"platform\"" in found["images.tf5.platfrom"]
    assert "neither a version" in found["images.tf5.vllm.0.spec"]
    assert "perhaps you meant \"cuda\"" in found["images.tf5.base"]
    assert "perhaps you meant \"wheels\"" in found["images.cpu.indexes"]
    assert "perhaps you meant \"indexes\"" in found["indexs"]
    assert len(found) == 5


@pytest.mark.parametrize(("change", "key", "said"), [
    ({"cuda": None}, "images.tf5.cuda", "belong together"),
    ({"base": "cuda", "platform": "linux/amd64"}, "images.tf5.base", "not made for linux/amd64"),
    ({"vllm": ["0.20.2", "0.20.2"]}, "images.tf5.vllm", "two values"),
    ({"vllm": ">=0.20"}, "images.tf5.indexes", "exact vllm version"),
    ({"exclude": [{"vllm": "0.2.2"}]}, "images.tf5.exclude.0.vllm", "no value \"0.2.2\""),
    ({"include": [{"base": "slin"}]}, "images.tf5.include.0.base", "perhaps you meant \"slim\""),
    ({"include": [{"vllm": "not one"}]}, "images.tf5.include.0.vllm", "neither a version"),
    ({"base": []}, "images.tf5.base", "must not be empty"),
])
def test_choices_that_cannot_be_are_refused(change: dict[str, Any], key: str, said: str) -> None:
    raw = small()
    raw["images"]["tf5"].update(change)
    raw["images"]["tf5"] = {k: v for k, v in raw["images"]["tf5"].items() if v is not None}
    assert said in problems(raw)[key]


def test_an_address_with_an_unknown_place_is_refused() -> None:
    raw = small()
    raw["indexes"]["wheels"]["url"] = "https://wheels.example/{python}"
    assert "cannot be filled" in problems(raw)["indexes.wheels.url"]


@pytest.mark.parametrize("url", [
    "https://x.example/{vllm:>999999999}", "https://x.example/{vllm!r}",
    "https://x.example/{vllm.__class__}", "https://x.example/{", "https://me:pw@x.example/"])
def test_an_address_with_more_than_a_place_to_fill_is_refused(url: str) -> None:
    raw = small()
    raw["indexes"]["wheels"]["url"] = url
    assert "indexes.wheels.url" in problems(raw)


@pytest.mark.parametrize(("place", "value", "key"), [
    (("registry",), "--evil", "registry"), (("registry",), "a b", "registry"),
    (("bases", "slim", "source"), "--evil", "bases.slim.source"),
    (("bases", "slim", "glibc"), "2.99999999", "bases.slim.glibc"),
    (("bases", "slim", "toolchain"), ["x @ file:///y"], "bases.slim.toolchain.0"),
    (("images", "tf5", "requires"), ["foo @ file:///etc/x.whl"], "images.tf5.requires.0"),
    (("images", "tf5", "leave_out"), ["foo\n-r /etc/passwd"], "images.tf5.leave_out.0"),
    (("indexes", "wheels", "packages"), ["../../x"], "indexes.wheels.packages.0"),
    (("schema",), 1e400, "schema"), (("patches",), {"p": {"pull": 1e400}}, "patches.p.pull"),
])
def test_values_that_could_mean_something_else_to_a_tool_are_refused(
        place: tuple[str, ...], value: object, key: str) -> None:
    raw = small()
    table = raw
    for step in place[:-1]:
        table = table[step]
    table[place[-1]] = value
    assert key in problems(raw)


def test_a_block_that_matches_no_image_is_refused() -> None:
    raw = small()
    raw["blocked"] = [{"images": ["tf6*"], "reason": "x", "link": "https://example.org"}]
    assert "no image matches" in problems(raw)["blocked.0.images"]
    raw["blocked"][0]["images"] = ["tf*"]
    parse_matrix(raw)


def test_the_committed_schema_is_the_models() -> None:
    committed = json.loads((ROOT / "docs" / "matrix.schema.json").read_text(encoding="utf-8"))
    assert committed == json_schema(), "renew it: sparkyard plan --schema > docs/matrix.schema.json"


def test_the_schema_admits_both_ways_to_write_an_axis() -> None:
    axis = json_schema()["$defs"]["Image"]["properties"]["vllm"]["anyOf"]
    assert [option.get("type", "table") for option in axis] == ["string", "table", "array"]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8)
    | st.sampled_from(["tf5", "slim", "0.20.2", ">=1", "linux/arm64"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["base", "vllm", "torch", "spec", "name", "images", "include", "exclude",
                         "platform", "url", "x"]), inner, max_size=3),
    max_leaves=8)


@settings(max_examples=300)
@given(st.sampled_from([
    ("images",), ("images", "tf5"), ("images", "tf5", "base"), ("images", "tf5", "vllm"),
    ("images", "tf5", "include"), ("images", "tf5", "exclude"), ("images", "tf5", "indexes"),
    ("bases",), ("bases", "slim", "platforms"), ("indexes", "wheels", "url"), ("blocked",)]), JUNK)
def test_no_document_makes_it_fail_otherwise(place: tuple[str, ...], junk: object) -> None:
    raw = small()
    table = raw
    for step in place[:-1]:
        table = table[step]
    table[place[-1]] = junk
    with suppress(ConfigError):
        expand(parse_matrix(raw))
