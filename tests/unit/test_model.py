"""The types of hand-written fields: what each accepts, and what it refuses with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from builder.model import ImageName, Link, Name, PackageName, Pattern, Registry, RequirementText

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(("kind", "text"), [
    (Registry, "127.0.0.1:5000/sparkyard"), (Registry, "registry.example/team/images"),
    (Registry, "localhost:5000"), (Registry, "[::1]:5000/x"), (Registry, "localhost/team"),
    (Registry, "docker.io/team"),
    (ImageName, "nvidia/cuda:13.0.2-devel-ubuntu24.04"), (ImageName, "debian"),
    (ImageName, "127.0.0.1:5000/a/b"), (ImageName, f"127.0.0.1:5000/a/b:tag@{DIGEST}"),
    (RequirementText, "torchvision==0.25.0"), (RequirementText, "nvidia-nvvm=={cuda}.*"),
    (RequirementText, 'ray[default]>=2; python_version > "3.9"'),
    (Link, "https://wheels.example:8443/{vllm}/cu130"),
    (PackageName, "nvidia-cuda-nvcc"), (PackageName, "A_b.c"), (Name, "tf5-0.19"),
    (Pattern, r"a+\.b"), (Pattern, r"[\[\]] \[\["),
])
def test_accepted(kind: Any, text: str) -> None:
    assert TypeAdapter(kind).validate_python(text) == text


@pytest.mark.parametrize(("kind", "text", "said"), [
    (Registry, "--evil", "is not a registry"), (Registry, "a b/c", "is not a registry"),
    (Registry, "", "is not a registry"), (Registry, "host/Team", "is not a registry"),
    (Registry, "UPPER/x", "is not a registry"), (Registry, "team/x", "is not a registry"),
    (Registry, "host/a;b", "is not a registry"), (Registry, "host/../x", "is not a registry"),
    (ImageName, "--evil", "is not the name of an image"),
    (ImageName, "a:b c", "is not the name of an image"),
    (ImageName, "a@sha256:short", "is not the name of an image"),
    (RequirementText, "foo @ file:///etc/x.whl", "names an address"),
    (RequirementText, "foo @ https://x.example/foo.whl", "names an address"),
    (RequirementText, "foo @ git+ssh://x.example/foo", "names an address"),
    (RequirementText, "foo bar", "is not a requirement"),
    (RequirementText, "foo\n--index-url https://x.example", "is not a requirement"),
    (Link, "http://x.example", "https://"), (Link, "https://", "https://"),
    (Link, "https://a b", "without spaces"), (Link, "https:///path", "without a host"),
    (Link, "https://me:secret@x.example/", "no user name or password"),
    (Link, "https://x.example:port/", "is not an address"),
    (PackageName, "foo @ file:///x", "pattern"), (PackageName, "foo\nbar", "pattern"),
    (Name, "Upper", "pattern"), (Name, "a\n", "pattern"), (Pattern, "(", "regular expression"),
    (Pattern, "[[]] sm_100", "two meanings .*nested set"),
    (Pattern, "a{99999999999999999999}", "repetition number is too large"),
    (Pattern, "(" * 5000 + ")" * 5000, "too deeply nested"),
])
def test_refused_with_the_reason(kind: Any, text: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        TypeAdapter(kind).validate_python(text)


def test_a_login_before_a_registry_is_not_repeated() -> None:
    with pytest.raises(ValidationError, match="is not a registry") as caught:
        TypeAdapter(Registry).validate_python("user:s3cr@t@127.0.0.1:5000/x")
    assert "'***@127.0.0.1:5000/x'" in caught.value.errors()[0]["msg"]
