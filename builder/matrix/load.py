"""Stage 1: ``matrix.toml`` into a ``Matrix``, or all its errors at once; its JSON Schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builder.config_file import read_toml, shape_problems
from builder.errors import ConfigError
from builder.matrix.models import VERSION_AXES, Matrix
from builder.matrix.references import wrong_references


def load_matrix(path: Path) -> Matrix:
    """Read and check ``path``; raise ConfigError with every error that it holds."""
    raw = read_toml(path, what="version matrix",
                    next_step="run in a Sparkyard checkout, or name it: --matrix FILE")
    return parse_matrix(raw, path.name)


def parse_matrix(raw: dict[str, Any], file: str = "matrix.toml") -> Matrix:
    """Check a parsed document; raise ConfigError with all errors of shape and all wrong names."""
    problems = [*shape_problems(Matrix, raw), *wrong_references(raw)]
    if problems:
        raise ConfigError(file, problems)
    return Matrix.model_validate(raw)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``matrix.toml``, for editors."""
    schema = Matrix.model_json_schema(by_alias=True)
    value: dict[str, Any] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/AxisValue"}]}
    for axis in VERSION_AXES:
        schema["$defs"]["Image"]["properties"][axis] = {
            "anyOf": [*value["anyOf"], {"type": "array", "items": value, "minItems": 1}]}
    names: dict[str, Any] = {"type": "string"}
    schema["$defs"]["Image"]["properties"]["base"] = {
        "anyOf": [names, {"type": "array", "items": names, "minItems": 1}]}
    schema["$defs"]["Image"]["properties"]["wheels"]["additionalProperties"] = {
        "anyOf": [names, {"type": "array", "items": names, "minItems": 1}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Sparkyard version matrix", **schema}
