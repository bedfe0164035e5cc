"""One reading of version specifiers for the matrix, recipes and known issues."""

from __future__ import annotations

import pytest

from builder.specifiers import (
    allows,
    is_exact,
    is_impossible,
    is_range,
    is_specifier,
    requirement,
    slug,
    specifier,
)


@pytest.mark.parametrize("text", ["0.20.2", ">=5.5.1,<6", "*", "==1.*", "~=1.4", "2.13.0+cpu"])
def test_versions_ranges_and_any_are_specifiers(text: str) -> None:
    assert specifier(text) == text
    assert is_specifier(text)


@pytest.mark.parametrize("text", ["", "newest", "0.x", ">=", "1 || 2", "@ file:///x", "1.0 --x",
                                  "9" * 5000, f">=1.{'9' * 5000}"])
def test_anything_else_is_refused(text: str) -> None:
    assert not is_specifier(text)
    with pytest.raises(ValueError, match="neither a version nor a version specifier"):
        specifier(text)


@pytest.mark.parametrize(("spec", "version", "said"), [
    ("0.20.2", "0.20.2", True), ("0.20.2", "0.20.3", False), (">=0.20", "0.20.2", True),
    ("*", "1.0", True), ("", "1.0", True), (">=1", "2.0rc1", True), ("*", "2.0.dev1", True),
    ("2.13.0", "2.13.0+cpu", True), ("==2.13.0+cpu", "2.13.0", False),
    (">=5", ">=5", False), ("*", "unknown", False), ("*", "9" * 5000, False),
    ("*", "1.0\n", False)])
def test_what_a_specifier_allows(spec: str, version: str, said: bool) -> None:
    assert allows(spec, version) is said


def test_an_exact_version_a_requirement_and_a_part_of_an_id() -> None:
    assert is_exact("0.20.2")
    assert not is_exact(">=0.20.2")
    assert requirement("vllm", "0.20.2") == "vllm==0.20.2"
    assert requirement("vllm", ">=0.20,<1") == "vllm>=0.20,<1"
    assert requirement("vllm", "*") == "vllm"
    assert [slug(text) for text in (">=5.5.1,<6", "*", "2.13.0+cpu")] == [
        "5.5.1-6", "any", "2.13.0-cpu"]


@pytest.mark.parametrize(("spec", "impossible"), [
    (">=2,<1", True), (">1,<1", True), (">=1,<1", True), (">1,<=1", True), (">=1,<=1", False),
    ("==1.0,>=2", True), ("==1.0,==2.0", True), ("==1.5,>=1", False), (">=1,<2", False),
    ("~=2.1,<2", True), ("~=2.1,<3", False), ("1.0", False), ("*", False), ("!=1.0", False),
    ("==1.*,>=2", False), (">=1,>=3,<2", True), (">=1,<9,<0.5", True)])
def test_a_range_without_a_version_is_known_where_that_is_certain(spec: str, impossible: bool
                                                                  ) -> None:
    assert is_impossible(spec) is impossible


@pytest.mark.parametrize(("spec", "said"), [
    (">=0.32", True), ("<5", True), ("==0.32.*", True), ("0.32.0", False), ("==0.32.0", False),
    ("*", False)])
def test_a_range_leaves_a_choice(spec: str, said: bool) -> None:
    assert is_range(spec) is said
