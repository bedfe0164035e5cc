"""The script of the image contract: each look is red where something is wrong, and else quiet."""

from __future__ import annotations

import getpass
import hashlib
import os
from pathlib import Path

import contract
import pytest
import results


def test_a_user_with_a_name_and_folders_of_its_own_is_fine(monkeypatch: pytest.MonkeyPatch
                                                           ) -> None:
    monkeypatch.setenv("LOGNAME", "sparkyard")
    assert "(sparkyard)" in contract.user({"HF_HOME": "/cache/huggingface", "PATH": "/rootless"})


@pytest.mark.parametrize("value", ["/root", "/root/.cache/huggingface", "/usr/bin:/root/bin"])
def test_a_variable_that_names_roots_folder_is_told(monkeypatch: pytest.MonkeyPatch, value: str
                                                    ) -> None:
    monkeypatch.setenv("LOGNAME", "sparkyard")
    with pytest.raises(results.Wrong, match=f"HF_HOME={value}"):
        contract.user({"HF_HOME": value})


def test_a_user_without_a_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", nobody)
    with pytest.raises(results.Wrong, match="has no name"):
        contract.user({})


def test_missing_commands_are_named() -> None:
    assert contract.tools(["sh", "cat"]) == "sh, cat"
    with pytest.raises(results.Wrong, match="not on PATH: awk-of-nobody"):
        contract.tools(["sh", "awk-of-nobody"])


def a_python(folder: Path, prefix: str) -> None:
    program = folder / "python3"
    program.write_text(f"#!/bin/sh\necho {prefix}\n")
    program.chmod(0o755)


def test_python3_is_the_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    a_python(tmp_path, contract.PREFIX)
    assert contract.python(["json"]) == str(tmp_path / "python3")
    with pytest.raises(results.Wrong, match="has no package_of_nobody"):
        contract.python(["json", "package_of_nobody"])
    a_python(tmp_path, "/usr")
    with pytest.raises(results.Wrong, match="is of /usr, not of /opt/sparkyard"):
        contract.python(["json"])
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(results.Wrong, match="no python3 on PATH"):
        contract.python(["json"])


def test_folders_take_a_file_and_keep_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    deep = tmp_path / "huggingface"
    assert contract.folders([str(tmp_path), str(deep)], str(tmp_path))
    assert list(tmp_path.rglob("*")) == [deep]


def test_a_folder_that_refuses_and_another_working_folder_are_told(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(results.Wrong) as caught:
        contract.folders([str(tmp_path), str(tmp_path / "file" / "below")], "/workspace")
    told = str(caught.value)
    assert f"the working folder is {tmp_path}, not /workspace" in told
    assert f"{tmp_path}/file/below: Not a directory" in told
    assert f"{tmp_path}: " not in told


def test_what_does_not_import_raises() -> None:
    assert contract.imports(["json"]).startswith("json ")
    with pytest.raises(ModuleNotFoundError):
        contract.imports(["package_of_nobody"])


def nccl_at(root: Path, place: str, data: bytes = b"nccl") -> str:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def test_one_nccl_that_the_label_names_is_fine(tmp_path: Path) -> None:
    digest = nccl_at(tmp_path, "opt/nccl/libnccl.so.2")
    (tmp_path / "opt/nccl/libnccl.so").symlink_to("libnccl.so.2")
    nccl_at(tmp_path, "opt/nccl/libnccl-net.so", b"a plug-in")
    assert contract.nccl(digest, tmp_path).startswith(f"{tmp_path}/opt/nccl/libnccl.so.2 (")


def test_no_nccl_and_none_labelled_is_fine(tmp_path: Path) -> None:
    assert contract.nccl("", tmp_path) == "the image has none, and names none"


def test_a_second_nccl_of_other_bytes_is_told(tmp_path: Path) -> None:
    digest = nccl_at(tmp_path, "opt/libnccl.so.2")
    nccl_at(tmp_path, "copy/libnccl.so.2")
    assert "2" in contract.nccl(digest, tmp_path)  # the same bytes twice are one library
    nccl_at(tmp_path, "usr/lib/libnccl.so.2.28.9", b"the system's")
    with pytest.raises(results.Wrong, match="2 different NCCL libraries"):
        contract.nccl(digest, tmp_path)


@pytest.mark.parametrize(("present", "labelled"), [(True, ""), (True, "f" * 64), (False, "f" * 64)])
def test_a_label_that_is_not_true_is_told(tmp_path: Path, *, present: bool, labelled: str) -> None:
    if present:
        nccl_at(tmp_path, "opt/libnccl.so.2")
    with pytest.raises(results.Wrong, match="the label names"):
        contract.nccl(labelled, tmp_path)
