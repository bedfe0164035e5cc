"""The models of ``matrix.toml``: both ways to write an axis, its slugs, addresses with places."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from builder.matrix.models import AxisValue, Base, Blocked, Image, Index, axis_slugs

IMAGE: dict[str, Any] = {"platform": "linux/arm64", "base": "slim", "vllm": "0.20.2"}
BASE: dict[str, Any] = {"flavour": "slim", "source": "x", "python": "3.11", "glibc": "2.36",
                        "platforms": ["linux/amd64"]}


@pytest.mark.parametrize("written", [
    "0.20.2", ["0.20.2"], {"spec": "0.20.2"}, [{"spec": "0.20.2"}]])
def test_one_value_may_be_written_in_four_ways(written: object) -> None:
    assert Image.model_validate({**IMAGE, "vllm": written}).vllm == (AxisValue(spec="0.20.2"),)


def test_slugs_are_names_or_specs_and_the_default_is_first() -> None:
    image = Image.model_validate({**IMAGE, "base": ["cuda", "slim"], "vllm": [
        "0.21.0", {"spec": ">=5.5.1", "name": "tf5"}]})
    assert axis_slugs(image, "base") == ["cuda", "slim"]
    assert axis_slugs(image, "vllm") == ["0.21.0", "tf5"]
    assert axis_slugs(image, "torch") == []


@pytest.mark.parametrize("change", [
    {"vllm": []}, {"vllm": 3}, {"base": []}, {"gpu": "gb10"}, {"cuda": "13"},
    {"platform": "linux/riscv64"}, {"promises": ["gemma5"]}, {"vllm_package": "vllm-rocm"},
    {"requires": ["a @ file:///b"]}, {"exclude": [{"gpu": "x"}]}, {"colour": "red"}])
def test_an_image_that_cannot_be_is_refused_at_its_key(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        Image.model_validate({**IMAGE, **change})
    assert {error["loc"][0] for error in caught.value.errors()} == set(change)


@pytest.mark.parametrize("change", [{"python": "3"}, {"glibc": "3.1"}, {"flavour": "alpine"},
                                    {"platforms": []}, {"toolchain": ["--evil"]}])
def test_a_base_that_cannot_be_is_refused_at_its_key(change: dict[str, Any]) -> None:
    Base.model_validate(BASE)
    with pytest.raises(ValidationError) as caught:
        Base.model_validate({**BASE, **change})
    assert {error["loc"][0] for error in caught.value.errors()} == set(change)


def test_an_index_is_filled_with_the_two_versions_only() -> None:
    url = "https://x.example/{vllm}/{torch}"
    assert Index(url=url, packages=("vllm",)).url == url
    with pytest.raises(ValidationError, match=r"\{cuda\} cannot be filled"):
        Index(url="https://x.example/{cuda}", packages=("vllm",))
    with pytest.raises(ValidationError, match="at least 1 item"):
        Index(url=url, packages=())


@pytest.mark.parametrize("missing", ["reason", "link"])
def test_a_block_needs_its_reason_and_a_link(missing: str) -> None:
    raw = {"reason": "it crashes", "link": "https://example.org/1"}
    assert Blocked.model_validate(raw).images == ("*",)
    with pytest.raises(ValidationError, match=missing):
        Blocked.model_validate({key: raw[key] for key in raw if key != missing})


def test_a_model_is_frozen() -> None:
    value = AxisValue(spec="1.0")
    with pytest.raises(ValidationError, match="frozen"):
        value.spec = "2.0"  # type: ignore[misc]
