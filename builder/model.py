"""What all models share: frozen values with strict keys, and the types of hand-written fields."""

from __future__ import annotations

import re
import warnings
from typing import Annotated, Literal
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from builder import specifiers
from builder.wording import WrongValueError

PATH_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"  # of a repository in a registry
# registry:port/path, as https://github.com/distribution/reference has it
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::\d{1,5})?"
REGISTRY = re.compile(f"{_HOST}(?:/{PATH_PART})*")
PATTERN_STEP = "write a backslash before a plain bracket or sign"
HTTPS_STEP = 'write it like "https://wheels.example/simple"'
NAME_PATTERN = r"^[a-z0-9]+([.-][a-z0-9]+)*$"  # also a valid image tag, file name and nox session

Platform = Literal["linux/amd64", "linux/arm64"]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


def _requirement(text: str) -> str:
    try:
        requirement = Requirement(text.replace("{cuda}", "0"))
    except InvalidRequirement as error:
        raise WrongValueError(f"{text!r} is not a requirement: {error}",
                              'write it like "numpy" or "numpy==2.2.*"') from error
    if requirement.url:
        raise WrongValueError(f"{text!r} names an address",
                              "name a version, and the index in [indexes]")
    return text


def _https(text: str) -> str:
    if not re.fullmatch(r"https://[!-~]+", text):
        raise WrongValueError("must be an https:// address without spaces", HTTPS_STEP)
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises ValueError for one that is no number
    except ValueError as error:
        raise WrongValueError(f"is not an address: {error}", HTTPS_STEP) from error
    if not parts.hostname:
        raise WrongValueError("is an address without a host", HTTPS_STEP)
    if "@" in parts.netloc:
        raise WrongValueError("must hold no user name or password",
                              "leave them out, and write them into ~/.netrc")
    return text


def registry(text: str) -> str:
    """Accept a registry with a name space: ``127.0.0.1:5000/sparkyard``; else ValueError.

    Its host has a dot or a port, or is localhost: docker takes any other for a name space of its
    Hub. That one is written ``docker.io/team``.
    """
    host = text.partition("/")[0]
    if not (REGISTRY.fullmatch(text) and ("." in host or ":" in host or host == "localhost")):
        shown = f"***@{text.rpartition('@')[2]}" if "@" in text else text  # no login
        raise WrongValueError(f"{shown!r} is not a registry and name space, like "
                              "registry.example:5000/team", "write host, port and name space in "
                              "this form, the name space in lower case")
    return text


def _image(text: str) -> str:
    name, _, digest = text.partition("@")
    repository, _, tag = name.rpartition(":") if ":" in name.rpartition("/")[2] else (name, "", "")
    if not (REGISTRY.fullmatch(repository) and re.fullmatch(r"(\w[\w.-]{0,127})?", tag)
            and re.fullmatch(r"(sha256:[0-9a-f]{64})?", digest)):
        raise WrongValueError(f"{text!r} is not the name of an image, like nvidia/cuda:13.0.2",
                              "write it in this form, in lower case and without spaces")
    return text


def _pattern(text: str) -> str:
    """Accept a regular expression that has one meaning; what Python warns of has another one soon.

    One that is too large or too deep is refused as well.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
    except (re.error, OverflowError) as error:
        raise WrongValueError(f"not a regular expression: {error}", PATTERN_STEP) from error
    except RecursionError as error:
        raise WrongValueError("not a regular expression: too deeply nested",
                              "write fewer brackets in each other") from error
    except Warning as error:
        raise WrongValueError(f"a regular expression with two meanings ({error})", PATTERN_STEP
                              ) from error
    return text


Specifier = Annotated[str, AfterValidator(specifiers.specifier)]
RequirementText = Annotated[str, AfterValidator(_requirement)]
Link = Annotated[str, AfterValidator(_https)]
Registry = Annotated[str, AfterValidator(registry)]
ImageName = Annotated[str, AfterValidator(_image)]
PackageName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]
Pattern = Annotated[str, AfterValidator(_pattern)]


class Frozen(BaseModel):
    """Base of the models: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)
