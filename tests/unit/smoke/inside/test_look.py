"""Level 1a inside an image: versions equal the lock, pip's complaints, a working compiler."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from types import SimpleNamespace

import look
import pytest
import results


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: [
        SimpleNamespace(metadata={"Name": name}, version=version)
        for name, version in versions.items()])


def test_what_is_installed_as_locked_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Torch="2.11", typing_extensions="4")
    assert look.versions({"torch": "2.11", "typing-extensions": "4"}) == "2 distributions"


@pytest.mark.parametrize(("locked", "text"), [
    ({"torch": "2.12"}, "torch: locked 2.12, installed 2.11"),
    ({"torch": "2.11", "vllm": "1"}, "vllm: locked 1, installed nothing"),
    ({}, "torch: locked nothing, installed 2.11")])
def test_another_version_a_missing_one_and_an_extra_one_fail(
        monkeypatch: pytest.MonkeyPatch, locked: dict[str, str], text: str) -> None:
    installed(monkeypatch, torch="2.11")
    with pytest.raises(results.Wrong, match=text):
        look.versions(locked)


@pytest.mark.parametrize(("said", "left_out", "clean"), [
    ("No broken requirements found.", [], True),
    ("a 1 requires b, which is not installed.", ["b"], True),
    ("a 1 requires b, which is not installed.", [], False),
    ("a 1 is not supported on this platform", [], True),
    ("a 1 has requirement b>2, but you have b 1.", ["b"], False)])
def test_pip_may_complain_of_two_things_only(monkeypatch: pytest.MonkeyPatch, said: str,
                                             left_out: list[str], *, clean: bool) -> None:
    monkeypatch.setattr(look, "_run", lambda *_, **__: said)
    if clean:
        assert look.pip_check(left_out).startswith("clean")
    else:
        with pytest.raises(results.Wrong):
            look.pip_check(left_out)


def test_a_compiler_that_does_not_work_fails_with_its_command(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "false")
    monkeypatch.setattr(look, "WORK", tmp_path)
    with pytest.raises(results.Wrong, match=r"^false "):
        look.c_stub()


def test_the_compiler_of_the_environment_is_asked_and_the_libraries_are_counted(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def answered(*words: str, **_: object) -> str:
        asked.append(words)
        return "13.2.0\n" if words[0] == "gcc" else "3 libs found\n\ta.so\n\tb.so\n\tc.so\n"

    monkeypatch.setattr(look, "WORK", tmp_path)
    monkeypatch.setattr(look, "_run", answered)
    monkeypatch.setattr(look.importlib.util, "module_from_spec", lambda spec: None)
    monkeypatch.setenv("CC", "my-cc")
    assert look.c_stub() == "13.2.0, 3 libraries"
    assert asked[0][0] == "my-cc"
    assert str(tmp_path / "stub.so") in asked[0]


def cuda_tools(folder: Path, monkeypatch: pytest.MonkeyPatch, ptxas: str, writes: bytes) -> None:
    """Put an nvcc of CUDA 13.0 into ``folder`` that writes ``writes``, and a ptxas beside it."""
    (folder / "bin").mkdir()
    for tool, release in (("nvcc", "13.0"), ("ptxas", ptxas)):
        path = folder / "bin" / tool
        path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}'\n"
                        f"[ $1 = --version ] || printf '{writes.decode()}' > $4\n")
        path.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(folder))
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    monkeypatch.setattr(look, "WORK", folder)


def test_a_kernel_of_machine_code_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cuda_tools(tmp_path, monkeypatch, "13.0", b"\\177ELF")
    assert look.kernel("13.0") == "CUDA 13.0, 4 bytes of sm_121a"


@pytest.mark.parametrize(("ptxas", "writes", "said"), [
    ("12.9", b"\\177ELF", r"ptxas is of CUDA 12\.9, not 13\.0"),
    ("13.0", b"text", "nvcc wrote no machine code")])
def test_mixed_tools_and_other_output_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                           ptxas: str, writes: bytes, said: str) -> None:
    cuda_tools(tmp_path, monkeypatch, ptxas, writes)
    with pytest.raises(results.Wrong, match=said):
        look.kernel("13.0")
