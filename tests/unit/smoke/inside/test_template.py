"""The script that looks for the served template: where it lies, and its possible digests."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import template

from builder.smoke.template import SCRIPT


def said(*words: Path | str) -> Any:
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_file_of_the_command_line_wins(tmp_path: Path) -> None:
    given = tmp_path / "mine.jinja"
    given.write_text("{{ mine }}")
    (tmp_path / "chat_template.jinja").write_text("{{ the model's }}")
    assert said(tmp_path, "", given) == {"where": str(given), "digests": [digest("{{ mine }}")]}


def test_a_string_in_json_may_have_lost_its_last_newline(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ a }}"}))
    assert said(tmp_path)["digests"] == [digest("{{ a }}"), digest("{{ a }}\n")]


@pytest.mark.parametrize("content", [
    {}, {"chat_template": None}, {"chat_template": [{"name": "tool_use", "template": "x"}]}])
def test_a_configuration_without_a_default_template_has_none(tmp_path: Path,
                                                             content: dict[str, Any]) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(content))
    assert said(tmp_path) == {"where": "", "digests": []}


def test_a_repository_is_looked_up_in_the_cache_only(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def cached(model: str, name: str, revision: str | None) -> object:
        asked.append((model, name, revision))
        return str(tmp_path / name) if name.endswith("jinja") else object()  # known not to exist

    monkeypatch.setitem(sys.modules, "huggingface_hub",
                        SimpleNamespace(try_to_load_from_cache=cached))
    assert template.locate("own/model", "", "chat_template.jinja") == (
        tmp_path / "chat_template.jinja")
    assert template.locate("own/model", "abc", "tokenizer_config.json") is None
    assert asked == [("own/model", "chat_template.jinja", None),
                     ("own/model", "tokenizer_config.json", "abc")]
