"""The compose file: its structure, no rights, and values that compose does not fill in."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import yaml
from exported import DIGEST, service

from builder.errors import UsageError
from builder.recipes.exports.compose import compose


def test_a_gpu_server() -> None:
    body = yaml.safe_load(compose(service("gemma4-31b-fp8")))["services"]["vllm"]
    assert body["image"] == DIGEST
    assert body["user"] == f"{os.getuid()}:{os.getgid()}"
    assert body["cap_drop"] == ["ALL"]
    assert body["security_opt"] == ["no-new-privileges:true"]
    assert body["ports"] == ["127.0.0.1:8000:8000"]
    assert body["environment"]["HF_TOKEN"] is None
    assert body["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]
    assert all(not volume["bind"]["create_host_path"] for volume in body["volumes"])
    assert "env_file" not in body


def test_a_cpu_server_has_no_gpu_and_a_read_only_model() -> None:
    body = yaml.safe_load(compose(service("tiny-gemma4", key_file="k")))["services"]["vllm"]
    assert "deploy" not in body
    assert [volume["read_only"] for volume in body["volumes"]] == [True]
    assert body["env_file"] == ["k"]
    assert "HF_TOKEN" not in body["environment"]


def test_a_dollar_of_a_value_is_no_variable() -> None:
    hostile = ("--chat", "${HOME}", "a: b # c")
    planned = service("tiny-gemma4", serve=hostile, environment={"A": "$B"})
    body = yaml.safe_load(compose(planned))["services"]["vllm"]
    assert body["command"][-3:] == ["--chat", "$${HOME}", "a: b # c"]
    assert body["environment"]["A"] == "$$B"


def test_several_machines_are_refused() -> None:
    with pytest.raises(UsageError):
        compose(service("tiny-gemma4", nodes=2))


def test_a_project_has_a_name_without_dots() -> None:
    planned = service("tiny-gemma4")
    named = replace(planned, recipe=planned.recipe.model_copy(update={"name": "gemma4-0.5b"}))
    assert yaml.safe_load(compose(named))["name"] == "gemma4-0-5b"
