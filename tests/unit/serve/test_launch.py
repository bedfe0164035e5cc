"""A launch: few rights, no secret in it, and only the folders that the server needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder.engine.service import service_options
from builder.errors import UsageError
from builder.layers import contract
from builder.serve import servers
from builder.serve.launch import Asked, User, caller, make_folders, unreadable
from tests.unit.played_servers import ROOT, launch

KEY = "sk-0123456789abcdef"


def test_a_cpu_server_has_few_rights_and_no_gpu(tmp_path: Path) -> None:
    found = launch(tmp_path)
    text = " ".join(service_options(found.spec))
    for part in ("--user 12345:12346", "--cap-drop ALL", "no-new-privileges", "--read-only",
                 "--publish 127.0.0.1:8000:8000", "--restart no", "--init",
                 f"src={ROOT}/tests/fixtures/tiny,dst=/models/tiny,readonly",
                 "--tmpfs /cache:exec,mode=1777"):
        assert part in text
    assert "--gpus" not in text
    assert found.spec.writable_mounts == ()
    assert found.spec.image == "sha256:" + "1" * 64


def test_a_gpu_server_gets_the_gpu_and_its_own_compile_cache(tmp_path: Path) -> None:
    found = launch(tmp_path, "gemma4-26b-a4b-fp8", cell="tf5")
    assert found.spec.gpus == "all"
    hub, compiled = found.spec.writable_mounts
    assert hub[1] == contract.HUB_CACHE
    assert compiled[1] == contract.RUNTIME_CACHE
    assert compiled[0].parent == tmp_path / "vllm"
    assert compiled[0].name.endswith("-" + "1" * 12)
    assert found.spec.env["VLLM_CACHE_ROOT"].startswith(contract.RUNTIME_CACHE)


def test_the_key_is_in_a_mounted_file_and_nowhere_else(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o644)
    found = launch(tmp_path, asked=Asked(key_file=file))
    words = [*service_options(found.spec), *found.spec.command, str(found.spec)]
    assert not any(KEY in word for word in words)
    assert (file, "/run/secrets/vllm-api-key") in found.spec.mounts
    assert found.spec.command[:2] == ("sh", "-c")
    assert found.spec.labels[servers.KEY_FILE] == str(file)
    assert launch(tmp_path).spec.command[:2] != ("sh", "-c")


def test_the_digest_is_of_what_runs_and_not_of_who_and_when(tmp_path: Path) -> None:
    one, same = launch(tmp_path), launch(tmp_path)
    assert one.spec.name != same.spec.name
    assert one.digest == same.digest == one.replacing("x").digest
    assert launch(tmp_path, port=8001).digest != one.digest
    assert launch(tmp_path, serve=("--enforce-eager",)).digest != one.digest
    assert one.replacing("x").spec.labels[servers.REPLACES] == "x"


def test_a_public_server_without_a_key_is_told_of(tmp_path: Path) -> None:
    assert "no API key" in " ".join(launch(tmp_path, asked=Asked(host="0.0.0.0")).remarks)
    assert launch(tmp_path).remarks == ()
    with pytest.raises(UsageError, match="not an IP address"):
        launch(tmp_path, asked=Asked(host="everywhere"))


def test_a_folder_in_the_place_of_the_model_and_one_that_cannot_be_mounted(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    found = launch(tmp_path, asked=Asked(model=tmp_path))
    assert (tmp_path, "/models/tiny") in found.spec.mounts
    with pytest.raises(UsageError, match="comma"):
        launch(tmp_path, asked=Asked(model=tmp_path / "a,b"))


def test_a_token_of_the_environment_is_not_handed_on_and_that_is_said(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", KEY)

    def told(**files: Path) -> bool:
        found = launch(tmp_path, "gemma4-26b-a4b-fp8", cell="tf5", asked=Asked(**files))
        assert KEY not in " ".join(service_options(found.spec))
        return "HF_TOKEN is not handed" in " ".join(found.remarks)

    token = tmp_path / "token-file"
    token.touch()
    token.chmod(0o644)
    assert told()
    assert not told(token_file=token)
    token.rename(tmp_path / "token")
    assert not told(), "the hub's client finds it there"


def test_the_file_of_a_token_is_where_the_server_is_told_to_look(tmp_path: Path) -> None:
    token = tmp_path / "token-file"
    token.write_text(KEY)
    token.chmod(0o644)
    found = launch(tmp_path, "gemma4-26b-a4b-fp8", cell="tf5", asked=Asked(token_file=token))
    assert (token, found.spec.env["HF_TOKEN_PATH"]) in found.spec.mounts
    assert KEY not in " ".join(service_options(found.spec))
    assert "HF_TOKEN_PATH" not in launch(tmp_path).spec.env


def test_an_address_of_ipv6_is_published_in_brackets(tmp_path: Path) -> None:
    options = service_options(launch(tmp_path, asked=Asked(host="::1")).spec)
    assert "[::1]:8000:8000" in options


def test_the_user_behind_sudo_is_the_one_who_called(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {"UID": "1000", "GID": "1001", "USER": "ann"}.items():
        monkeypatch.setenv(f"SUDO_{key}", value)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert (caller().uid, caller().gid, caller().name) == (1000, 1001, "ann")
    monkeypatch.setattr("os.geteuid", lambda: 7)
    assert caller().uid == 7


def test_folders_are_made_as_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, int, int]] = []
    monkeypatch.setattr("os.chown", lambda path, uid, gid: given.append((path.name, uid, gid)))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    found = launch(tmp_path, "gemma4-26b-a4b-fp8", cell="tf5")
    make_folders(found)
    assert all(folder.is_dir() for folder in found.folders)
    assert {item[1:] for item in given} == ({(12345, 12346)} if os.geteuid() == 0 else set())
    given.clear()
    make_folders(found)
    assert given == []


def test_what_the_user_of_the_server_cannot_read_is_told_before_the_start(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    weights = model / "model.safetensors"
    weights.touch()
    for path, mode in ((tmp_path, 0o755), (model, 0o755), (weights, 0o600)):
        path.chmod(mode)
    with pytest.raises(UsageError, match=r"user 12345 of the server cannot read .*safetensors"):
        launch(tmp_path, asked=Asked(model=model))
    weights.chmod(0o644)
    assert launch(tmp_path, asked=Asked(model=model))
    own = User(weights.stat().st_uid, weights.stat().st_gid, "owner")
    weights.chmod(0o400)
    assert unreadable(model, own) == ""
    assert unreadable(model, User(own.uid + 1, own.gid, "group")) == str(weights)
    weights.chmod(0o040)
    assert unreadable(model, User(own.uid + 1, own.gid, "group")) == ""
