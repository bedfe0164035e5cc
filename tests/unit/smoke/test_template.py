"""The served chat template: the stated one, a stale one, none, and where it may lie."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from builder import process
from builder.engine.client import Container
from builder.errors import UsageError
from builder.recipes.load import load_recipe
from builder.record.check import Status
from builder.smoke.template import template_check, template_copies

ROOT = Path(__file__).parents[3]
TINY = ROOT / "tests" / "fixtures" / "tiny-gemma4"
RECIPE = load_recipe(ROOT, "tiny-gemma4")


class Here:
    """A container whose commands run on this machine."""

    def exec(self, command: list[str], *, stdin: bytes, timeout: float) -> process.Result:
        return process.run([sys.executable, *command[1:]], stdin=stdin, check=False,
                           timeout=timeout)


class Silent:
    """A container whose engine answers ``text`` with status 0, or not in time."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def exec(self, command: list[str], *, stdin: bytes, timeout: float) -> process.Result:
        result = process.Result(tuple(command), 0, self.text or "", "")
        if self.text is None:
            raise process.CommandError(result)
        return result


@pytest.mark.parametrize("text", ["", "\n", "[]", "{}", '{"where": "x"}', "[" * 99, None,
                                  '{"where": 1, "digests": 2}'])
def test_an_engine_that_answers_nothing_is_no_traceback(text: str | None) -> None:
    found = template_check(cast(Container, Silent(text)), RECIPE, "/model")
    assert found.status is Status.FAIL
    assert found.detail.startswith("it cannot be read: ")


def look(model: Path | str) -> Any:
    return template_check(cast(Container, Here()), RECIPE, str(model))


def test_the_tiny_model_brings_the_stated_one() -> None:
    found = look(TINY)
    assert found.status is Status.PASS, found
    assert "chat_template.jinja" in found.detail


def test_a_stale_one_fails_with_both_digests(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ old }}")
    found = look(tmp_path)
    assert found.status is Status.FAIL
    assert hashlib.sha256(b"{{ old }}").hexdigest()[:12] in found.detail
    assert "is another one" in found.detail


@pytest.mark.parametrize("wrap", [lambda text: text,
                                  lambda text: [{"name": "tool_use", "template": "other"},
                                                {"name": "default", "template": text}]])
def test_a_template_inside_the_tokenizers_configuration_counts(tmp_path: Path, wrap: Any) -> None:
    text = (TINY / "chat_template.jinja").read_text(encoding="utf-8").removesuffix("\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": wrap(text)}))
    assert look(tmp_path).status is Status.PASS


def test_a_file_of_its_own_hides_the_one_in_the_configuration(tmp_path: Path) -> None:
    good = (TINY / "chat_template.jinja").read_text(encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": good}))
    (tmp_path / "chat_template.jinja").write_text("{{ old }}")
    assert look(tmp_path).status is Status.FAIL


def test_a_model_without_any_fails(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert look(tmp_path).detail == "the model brings none"


def test_one_that_cannot_be_read_fails_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{")
    found = look(tmp_path)
    assert found.status is Status.FAIL
    assert "JSONDecodeError" in found.detail


def test_a_recipe_that_states_none_is_not_applicable() -> None:
    recipe = SimpleNamespace(chat_template=None)
    found = template_check(cast(Container, Here()), cast(Any, recipe), "")
    assert found.status is Status.NOT_APPLICABLE


def test_one_that_replaces_the_models_own_must_lie_here(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    light = load_recipe(ROOT, "gemma4-31b-awq4-light")
    with pytest.raises(UsageError, match="the file with it is not here") as caught:
        template_copies(light)
    assert "curl" in caught.value.next_step
    (tmp_path / "chat_template.jinja").write_text("x")
    assert template_copies(light) == ((tmp_path / "chat_template.jinja", "/chat_template.jinja"),)
    assert template_copies(RECIPE) == ()
