"""One reading of version specifiers for the matrix, recipes and known issues."""

from __future__ import annotations

import pytest

from builder.specifiers import allows, is_exact, is_specifier, requirement, slug, specifier


@pytest.mark.parametrize("text", ["0.20.2", ">=5.5.1,<6", "*", "==1.*", "~=1.4", "2.13.0+cpu"])
def test_versions_ranges_and_any_are_specifiers(text: str) -> None:
    assert specifier(text) == text
    assert is_specifier(text)


@pytest.mark.parametrize("text", ["", "newest", "0.x", ">=", "1 || 2", "@ file:///x", "1.0 --x"])
def test_anything_else_is_refused(text: str) -> None:
    assert not is_specifier(text)
    with pytest.raises(ValueError, match="neither a version nor a version specifier"):
        specifier(text)


@pytest.mark.parametrize(("spec", "version", "said"), [
    ("0.20.2", "0.20.2", True), ("0.20.2", "0.20.3", False), (">=0.20", "0.20.2", True),
    ("*", "1.0", True), ("", "1.0", True), (">=1", "2.0rc1", True), ("*", "2.0.dev1", True),
    ("2.13.0", "2.13.0+cpu", True), ("==2.13.0+cpu", "2.13.0", False),
    (">=5", ">=5", False), ("*", "unknown", False)])
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
