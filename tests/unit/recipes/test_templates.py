"""A stale chat template is named with what the newer ones fixed; the newest stays quiet."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from builder.recipes.check import Finding
from builder.recipes.load import load_recipe, recipe_names
from builder.recipes.models import Recipe
from builder.recipes.rules import Severity
from builder.recipes.templates import Known, check_template, load_templates

ROOT = Path(__file__).parents[3]
OWNER = load_templates().published[0]
OLDEST, NEWEST = OWNER.version[0], OWNER.version[-1]
CARRIER = "cyankiwi/gemma-4-31B-it-AWQ-4bit"


def recipe(model: str = "google/gemma-4-31B-it", template: dict[str, Any] | None = None) -> Recipe:
    return Recipe.model_validate({
        "name": "r", "schema": 1, "description": "d", "family": "other", "image": "img",
        "model": {"repository": model, "unpinned_because": "a test", "parameters_billion": 31,
                  "active_billion": 31}, "serve": (), "chat_template": template})


def named(sha256: str, **changed: Any) -> dict[str, Any]:
    return {"sha256": sha256, "as_of": "2026-04-30", **changed}


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-home"))
    return tmp_path / "hub-home" / "hub"


def found(made: Recipe, root: Path = ROOT) -> list[Finding]:
    return list(check_template(root, made))


@pytest.mark.parametrize("name", recipe_names(ROOT))
def test_the_committed_recipes_are_quiet(name: str) -> None:
    assert found(load_recipe(ROOT, name)) == []


def test_a_replaced_version_is_named_with_all_that_followed() -> None:
    stale = found(recipe(template=named(OLDEST.sha256)))[0]
    assert stale.severity is Severity.WARNING
    assert all(version.fixes in stale.what for version in OWNER.version[1:])
    assert OLDEST.fixes not in stale.what
    assert NEWEST.sha256 in stale.next_step
    assert found(recipe(template=named(NEWEST.sha256))) == []


def test_a_file_that_is_fetched_with_an_old_digest_would_not_start() -> None:
    made = named(OLDEST.sha256, replace=True, url=OWNER.url)
    assert found(recipe(template=made))[0].severity is Severity.ERROR


def test_a_checkpoint_that_carries_an_old_copy_is_named_unless_it_is_replaced() -> None:
    carried = found(recipe(CARRIER))[0]
    assert "carries an older template of its owner, as seen on 2026-09-15" in carried.what
    good = named(NEWEST.sha256, replace=True, url=OWNER.url)
    assert found(recipe(CARRIER, good)) == []
    assert found(recipe("somebody/else")) == []


def test_the_copy_on_this_host_counts(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = hub / "models--a--b"
    (folder / "snapshots" / "c0ffee").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("c0ffee\n")
    (folder / "snapshots" / "c0ffee" / "chat_template.jinja").write_text("a template")
    digest = hashlib.sha256(b"a template").hexdigest()
    assert found(recipe("a/b", named(digest))) == []
    other = found(recipe("a/b", named("0" * 64)))[0]
    assert other.severity is Severity.ERROR
    assert digest[:12] in other.what
    known = load_templates()
    version = OLDEST.model_copy(update={"sha256": digest})
    owner = OWNER.model_copy(update={"version": (version, NEWEST)})
    monkeypatch.setattr("builder.recipes.templates.load_templates",
                        lambda: known.model_copy(update={"published": (owner,), "copy_": ()}))
    assert "carries an older template of its owner, on this host" in found(recipe("a/b"))[0].what


def test_a_folder_s_template_must_have_the_recipe_s_digest(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    made = recipe(template=named("0" * 64))
    model = made.model.model_copy(update={"path": "model", "repository": None})
    made = made.model_copy(update={"model": model})
    assert found(made, tmp_path) == []  # a folder without one
    (tmp_path / "model" / "chat_template.jinja").write_text("another")
    assert found(made, tmp_path)[0].severity is Severity.ERROR


def test_a_copy_must_be_of_a_known_version() -> None:
    with pytest.raises(ValidationError, match="no published version is 0000"):
        Known.model_validate({"published": [OWNER], "copy": [
            {"models": "x", "of": "0" * 64, "as_of": "2026-01-01",
             "source": "https://a.example"}]})
