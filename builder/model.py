"""What all models share: frozen values with strict keys, and the types of hand-written fields."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from builder import specifiers

NAME_PATTERN = r"^[a-z0-9]+([.-][a-z0-9]+)*$"  # also a valid image tag, file name and nox session

Platform = Literal["linux/amd64", "linux/arm64"]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


def _requirement(text: str) -> str:
    try:
        requirement = Requirement(text.replace("{cuda}", "0"))
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is not a requirement: {error}") from error
    if requirement.url:
        raise ValueError(f"{text!r} names an address; name a version, and the index in [indexes]")
    return text


def _https(text: str) -> str:
    if not re.fullmatch(r"https://[!-~]+", text):
        raise ValueError("must be an https:// address without spaces")
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return text


Specifier = Annotated[str, AfterValidator(specifiers.specifier)]
RequirementText = Annotated[str, AfterValidator(_requirement)]
Link = Annotated[str, AfterValidator(_https)]
Pattern = Annotated[str, AfterValidator(_pattern)]


class Frozen(BaseModel):
    """Base of the models: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)
