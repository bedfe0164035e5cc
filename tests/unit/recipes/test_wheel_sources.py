"""Names and annotations are followed through a wheel's modules, and nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import fake_vllm
import pytest
from patch_wheels import encrypted, torn

from builder.errors import LockError
from builder.recipes.wheel_sources import WheelSources


@pytest.fixture
def sources(tmp_path: Path) -> WheelSources:
    return WheelSources(fake_vllm.wheel(tmp_path))


def kinds(sources: WheelSources, annotation: str) -> list[tuple[str, tuple[str, ...]]]:
    node = ast.parse(annotation, mode="eval").body
    return [(hint.kind, hint.options) for hint in sources.hints("vllm.config.model", node)]


def test_a_name_is_found_through_imports(sources: WheelSources) -> None:
    found = sources.find("vllm.engine.arg_utils", "ModelConfig")
    assert found is not None
    assert found[0] == "vllm.config.model"
    assert sources.find("vllm.engine.arg_utils", "Nothing") is None
    assert sources.find("vllm.nowhere", "Nothing") is None


def test_fields_of_bases_count(sources: WheelSources) -> None:
    fields = sources.fields("vllm.config", "ModelConfig")
    assert {"max_model_len", "dtype"} <= set(fields)
    assert sources.fields("vllm.config", "Half") == {}


@pytest.mark.parametrize(("annotation", "expected"), [
    ("int | None", [("int", ()), ("none", ())]),
    ("Optional[float]", [("float", ()), ("none", ())]),
    ("Half", [("literal", ("half", "float16"))]),
    ("Literal['x', Half]", [("literal", ("x", "half", "float16"))]),
    ("QuantizationMethods", [("literal", ("fp8", "modelopt"))]),  # TYPE_CHECKING, relative
    ("Backend", [("enum", ("FLASH_ATTN", "TRITON_ATTN"))]),
    ("Annotated[int, Field(gt=0)]", [("int", ())]),
    ("'int'", [("int", ())]),
    ("list[str]", [("collection", ())]),
    ("dict[str, Any]", [("dict", ())]),
    ("torch.dtype", [("other", ())]),
    ("Unknown", [("other", ())]),
    ("SpeculativeConfig", [("config", ())]),
])
def test_annotations(sources: WheelSources, annotation: str,
                     expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert kinds(sources, annotation) == expected


def test_a_name_that_means_itself_ends(tmp_path: Path) -> None:
    sources = WheelSources(fake_vllm.wheel(tmp_path, config__model="A = B\nB = A\n"))
    assert kinds(sources, "A") == [("other", ())]


def test_a_module_that_does_not_parse_is_no_module(tmp_path: Path) -> None:
    sources = WheelSources(fake_vllm.wheel(tmp_path, worker="def ("))
    assert sources.tree("vllm.worker") is None


def test_a_file_that_is_no_wheel_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "vllm-1-py3-none-any.whl"
    path.write_bytes(b"not a zip")
    with pytest.raises(LockError, match="cannot be read"):
        WheelSources(path)


@pytest.mark.parametrize("spoil", [encrypted, torn])
def test_a_wheel_with_members_that_cannot_be_read_is_named(
        tmp_path: Path, spoil: Callable[[Path], Path]) -> None:
    with pytest.raises(LockError, match="cannot be read"):
        WheelSources(spoil(fake_vllm.wheel(tmp_path)))


def test_an_annotation_in_quotes_need_not_be_python(sources: WheelSources) -> None:
    assert kinds(sources, "'not python!'") == [("other", ())]
    assert kinds(sources, "'x\\0'") == [("other", ())]
    assert kinds(sources, "'int'") == [("int", ())]
