"""What ``serve`` and ``switch`` ask for, and everything that is refused before a start."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from builder import labels as label
from builder.commands import serve_options
from builder.commands.serve_options import (
    add_launch_options,
    asked,
    check_recipe,
    find_image,
    local_image,
    locked_cell,
    prepare,
)
from builder.engine.client import ImageFacts
from builder.errors import EngineError, LockError, UsageError
from builder.recipes.check import Finding
from builder.recipes.load import load_recipe
from builder.recipes.rules import Severity
from builder.serve.launch import Asked
from builder.serve.servers import HOST, KEY_FILE, PORT, RESTART, read_server
from tests.unit.played_servers import IMAGE, ROOT, WORKSPACE
from tests.unit.serve.test_servers import facts

TINY = load_recipe(ROOT, "tiny-gemma4")


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_launch_options(parser)
    return parser.parse_args(["tiny-gemma4", *words])


def test_nothing_asked_is_loopback_without_a_key() -> None:
    assert asked(options(), TINY, None) == Asked()
    assert asked(options("--public", "--port", "9"), TINY, None) == Asked(host="0.0.0.0", port=9)


def test_a_switch_takes_over_what_is_not_asked_for(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("0123456789")
    old = read_server(facts("a", {HOST: "10.0.0.7", PORT: "8123", KEY_FILE: str(key),
                                  RESTART: "yes"}))
    assert asked(options(), TINY, old) == Asked(host="10.0.0.7", port=8123, key_file=key,
                                                restart=True)
    assert asked(options("--port", "9"), TINY, old).port == 9


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1", "٣"])
def test_a_port_is_a_port(port: str) -> None:
    with pytest.raises(SystemExit):
        options(f"--port={port}")


@pytest.mark.parametrize("words", [("--hf-token-file", "/none"), ("--model", "/none"),
                                   ("--api-key-file", "/none")])
def test_files_that_are_not_there(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        asked(options(*words), TINY, None)


def test_a_folder_without_a_checkpoint_is_refused_before_a_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the folder has no config\.json"):
        asked(options("--model", str(tmp_path)), TINY, None)


def test_a_token_file_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    pipe, empty = tmp_path / "pipe", tmp_path / "empty"
    os.mkfifo(pipe)
    empty.touch()
    for file, wrong in ((pipe, "device or pipe"), (empty, "is empty"), (tmp_path / "x", "no such")):
        with pytest.raises(UsageError, match=wrong):
            asked(options("--hf-token-file", str(file)), TINY, None)


def test_no_folder_takes_the_place_of_a_hub_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert asked(options("--model", str(tmp_path)), TINY, None).model == tmp_path
    hub = load_recipe(ROOT, "gemma4-26b-a4b-fp8")
    with pytest.raises(UsageError, match="repository of a model hub"):
        asked(options("--model", str(tmp_path)), hub, None)


def test_the_cell_of_this_machine_comes_first_and_an_unknown_one_is_refused() -> None:
    assert locked_cell(WORKSPACE, TINY, None, "linux/amd64")[0].id == "cpu"
    with pytest.raises(UsageError, match="there is no cell"):
        locked_cell(WORKSPACE, TINY, "nowhere", "linux/amd64")


def test_errors_of_the_recipe_check_refuse_a_start_unless_told(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
        ) -> None:
    cell, lock = locked_cell(WORKSPACE, TINY, "cpu", "linux/amd64")
    here = replace(WORKSPACE, cache=tmp_path)
    bad = Finding(check="flag", severity=Severity.ERROR, what="no flag --x")
    monkeypatch.setattr(serve_options, "check", lambda *_: [bad])
    with pytest.raises(UsageError, match="found 1 error in tiny-gemma4"):
        check_recipe(here, TINY, cell, lock, force=False)
    check_recipe(here, TINY, cell, lock, force=True)
    assert capsys.readouterr().err.count("no flag --x") == 2
    monkeypatch.setattr(serve_options, "check", lambda *_: [])
    check_recipe(here, TINY, cell, lock, force=False)


def test_what_the_check_could_not_read_is_named_with_the_command_that_fetches_it(
        tmp_path: Path) -> None:
    cell, lock = locked_cell(WORKSPACE, TINY, "cpu", "linux/amd64")
    with pytest.raises(UsageError, match="could not be checked whole") as caught:
        check_recipe(replace(WORKSPACE, cache=tmp_path), TINY, cell, lock, force=False)
    assert caught.value.next_step.startswith("run `./nox -s fetch -- cpu`; ")


def test_a_recipe_with_errors_of_its_own_gets_the_check_of_its_cell(
        monkeypatch: pytest.MonkeyPatch) -> None:
    cell, lock = locked_cell(WORKSPACE, TINY, "cpu", "linux/amd64")
    bad = Finding(check="flag", severity=Severity.ERROR, what="no flag --x")
    monkeypatch.setattr(serve_options, "check", lambda *_: [bad])
    with pytest.raises(UsageError) as caught:
        check_recipe(WORKSPACE, TINY, cell, lock, force=False)
    assert caught.value.next_step.startswith(
        "`./nox -s recipe -- check tiny-gemma4 --cell cpu` explains")


class Images:
    """An engine that knows images by name and has a platform."""

    info = SimpleNamespace(platform="linux/amd64")

    def __init__(self, **found: ImageFacts) -> None:
        self.found = {name.replace("_", ":"): image for name, image in found.items()}

    def inspect(self, reference: str) -> ImageFacts | None:
        return self.found.get(reference.rpartition("/")[2])

    def labelled(self, repository: str, name: str, value: str) -> tuple[str, ...]:
        return tuple(f"{repository}:{known.partition(':')[2]}" for known, image in
                     self.found.items() if image.labels.get(name) == value)


def of_lock(digest: str) -> ImageFacts:
    return replace(IMAGE, labels={label.LOCK: digest})


def test_an_image_that_is_missing_or_of_another_lock() -> None:
    _, lock = locked_cell(WORKSPACE, TINY, "cpu", "linux/amd64")

    def ask(*, foreign: bool = False, **found: ImageFacts) -> object:
        return local_image(Images(**found), "r/x", lock, foreign=foreign)  # type: ignore[arg-type]

    with pytest.raises(EngineError, match="no such image"):
        ask()
    with pytest.raises(LockError, match="the image names no lock; the current lock of cpu is"):
        ask(x=IMAGE)
    with pytest.raises(LockError) as told:
        ask(x=of_lock("sha256:" + "5" * 64))
    assert "was built from the lock 555555555555;" in told.value.what
    assert lock.digest[7:19] in told.value.what
    assert ask(x=IMAGE, foreign=True) == IMAGE
    assert ask(x=of_lock(lock.digest)) == of_lock(lock.digest)


def test_a_name_that_moved_on_leads_to_the_image_of_the_lock(
        capsys: pytest.CaptureFixture[str]) -> None:
    cell, lock = locked_cell(WORKSPACE, TINY, "cpu", "linux/amd64")
    good, other = of_lock(lock.digest), of_lock("sha256:" + "5" * 64)
    fixed = f"{WORKSPACE.registry}/cpu:fixed"

    def find(asked_for: str | None = None, **found: ImageFacts) -> tuple[str, ImageFacts]:
        return find_image(WORKSPACE, Images(**found), cell, lock, asked_for)  # type: ignore[arg-type]

    assert find(cpu_cpu=good, cpu_fixed=other)[1] is good
    assert capsys.readouterr().err == ""
    assert find(cpu_cpu=other, cpu_fixed=good) == (fixed, good)
    assert f"serving {fixed}" in capsys.readouterr().err
    assert find(cpu_fixed=good) == (fixed, good)
    assert find("r/own:1", own_1=other, cpu_fixed=good) == ("r/own:1", other)
    nothing: dict[str, ImageFacts] = {}
    for found in (nothing, {"cpu_cpu": other}, {"cpu_cpu": other, "cpu_fixed": other}):
        with pytest.raises((EngineError, LockError)):
            find(None, **found)


@pytest.mark.parametrize("words", [
    ("--host", "nowhere"), ("--api-key-file", "/none"), ("--model", "/none"),
    ("--hf-token-file", "/none")])
def test_what_is_mistyped_is_told_before_the_recipe_and_the_image(
        words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def too_early(*_: object, **__: object) -> None:
        raise AssertionError("looked at before the options")

    monkeypatch.setattr(serve_options, "check_recipe", too_early)
    monkeypatch.setattr(serve_options, "find_image", too_early)
    with pytest.raises(UsageError) as told:
        prepare(WORKSPACE, Images(), options(*words))  # type: ignore[arg-type]
    assert words[0] in told.value.where


def test_the_recipe_check_is_announced_and_comes_before_the_image(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(serve_options, "check", lambda *_: [])
    with pytest.raises(EngineError, match="no such image"):
        prepare(WORKSPACE, Images(), options())  # type: ignore[arg-type]
    assert "checking the recipe tiny-gemma4 …" in capsys.readouterr().err
