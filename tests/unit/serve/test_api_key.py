"""The API key: one line of a file, read here and in the container by the same rule."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.serve import api_key
from builder.serve.api_key import WRAPPER, check_file, read_key, with_key

KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize("text", [KEY, f"{KEY}\n", f"VLLM_API_KEY={KEY}\n"])
def test_host_and_container_read_the_same_key(tmp_path: Path, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    assert read_key(file) == KEY
    script = WRAPPER.replace(api_key.INSIDE, str(file))
    words = [script if word == WRAPPER else word
             for word in with_key(("sh", "-c", "echo $VLLM_API_KEY"))]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == f"{KEY}\n"


@pytest.mark.parametrize("text", [None, "", "VLLM_API_KEY=\n"])
def test_without_a_key_no_server_starts(tmp_path: Path, text: str | None) -> None:
    """An empty key would be no key at all to vLLM."""
    file = tmp_path / "key"
    if text is not None:
        file.write_text(text)
    script = WRAPPER.replace(api_key.INSIDE, str(file))
    done = subprocess.run(["sh", "-c", script, "sh", "echo", "served"], capture_output=True,
                          text=True, check=False)
    assert done.returncode != 0
    assert done.stdout == ""


@pytest.mark.parametrize("text", ["", "\n", "short", "two words here", f"{KEY}\n{KEY}\n",
                                  f"{KEY}\r\n", f"\n{KEY}\n", f"{KEY}\n\n", f"{KEY}\x0b",
                                  f" {KEY}", "ключ-которого-нет", "VLLM_API_KEY=\n"])
def test_what_cannot_be_a_key_is_refused_before_any_start(tmp_path: Path, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        read_key(file)
    assert "openssl rand -hex 32 > key)" in error.value.next_step, "not over the user's own file"
    assert KEY not in str(error.value.what)


def test_a_missing_file_and_one_that_others_can_read(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="cannot be read") as error:
        read_key(tmp_path / "none")
    assert f"openssl rand -hex 32 > {tmp_path}/none)" in error.value.next_step
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o644)
    check_file(file)
    assert "chmod 600" in capsys.readouterr().err
    file.chmod(0o600)
    check_file(file)
    assert capsys.readouterr().err == ""


def test_what_is_printed_to_be_pasted_is_quoted(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "$(touch pasted) `touch pasted`; touch pasted"
    with pytest.raises(UsageError) as error:
        read_key(file)
    told = error.value.next_step.removeprefix("make one: ")
    subprocess.run(["sh", "-c", told], cwd=tmp_path, check=False, capture_output=True)
    assert file.is_file()
    file.write_text(KEY)
    file.chmod(0o644)
    check_file(file)
    told = capsys.readouterr().err.partition("API key: ")[2]
    subprocess.run(["sh", "-c", told], cwd=tmp_path, check=True)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
