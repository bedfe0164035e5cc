"""Image names: taken apart where they name a registry, refused otherwise."""

from __future__ import annotations

import pytest

from builder.errors import UsageError
from builder.registry.reference import parse


@pytest.mark.parametrize(("text", "api"), [
    ("127.0.0.1:5000/sparkyard/cpu:cpu-1.0", "http://127.0.0.1:5000"),
    ("localhost/cpu:t", "http://localhost"),
    ("ghcr.io/me/a/b:t", "https://ghcr.io"),
    ("spark-1:5000/ns/cpu:t", "https://spark-1:5000"),
    ("docker.io/me/cpu:t", "https://registry-1.docker.io")])
def test_a_whole_name(text: str, api: str) -> None:
    reference = parse(text)
    assert str(reference) == text
    assert reference.api == api


@pytest.mark.parametrize("text", ["", "cpu", "cpu:t", "sparkyard/cpu:t", "r.example/cpu",
                                  "r.example/CPU:t", "r.example/a b:t", "r.example/cpu:",
                                  "r.example/../cpu:t", "r.example@evil.example/cpu:t",
                                  "127.0.0.1.evil.example:x/cpu:t"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not an image name"):
        parse(text)


def test_a_host_that_begins_like_this_machine_is_another() -> None:
    assert parse("127.0.0.1.example.org/cpu:t").api.startswith("https://")
    assert parse("localhost.example.org/cpu:t").api.startswith("https://")


def test_the_login_to_the_hub_has_a_name_of_its_own() -> None:
    assert parse("docker.io/me/cpu:t").login_names[0] == "https://index.docker.io/v1/"
    assert parse("ghcr.io/me/cpu:t").login_names[0] == "ghcr.io"
