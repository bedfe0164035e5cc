"""Image names: taken apart where they name a registry, refused otherwise."""

from __future__ import annotations

import pytest

from builder.errors import UsageError
from builder.registry.reference import check_reference, is_digest, is_tag, parse


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


def test_a_digest_is_whole_and_a_tag_is_one_word() -> None:
    assert is_digest("sha256:" + "a1" * 32)
    assert not any(map(is_digest, ("sha256:abc", "sha256:" + "g" * 64, "sha256:" + "A" * 64,
                                   "a" * 64, "", "sha256:" + "a" * 64 + "\n")))
    assert is_tag("cpu-vllm0.32.0-1a2b")
    assert not any(map(is_tag, ("", "bad tag!", "-x", "a/b", "a:b", "x" * 129, "a\n")))


@pytest.mark.parametrize("text", [
    "debian", "debian:bookworm-slim", "vllm/vllm-openai:v0.19.0-aarch64", "localhost:5000/a/b_c:x",
    "Registry.example/a--b", "sha256:" + "0" * 64, "0123456789ab",
    "ghcr.io/a/b:t@sha256:" + "0" * 64])
def test_names_of_images(text: str) -> None:
    check_reference(text, "--image")


@pytest.mark.parametrize("text", [
    "", " ", "a b", "team/UPPER:x", "a:b:c", "-a", "a/", "/a", "a@sha256:1", "a@sha256:" + "0" * 40,
    "a:\u0663", "a\n", "http://a/b"])
def test_what_no_image_can_be_called(text: str) -> None:
    with pytest.raises(UsageError):
        check_reference(text, "--image")
