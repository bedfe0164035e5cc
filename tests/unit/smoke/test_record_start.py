"""What a record says of image, model and machine: digests, and nothing that names the machine."""

from __future__ import annotations

import getpass
import platform
from pathlib import Path
from typing import Any

import pytest

from builder.engine.client import EngineInfo, ImageFacts
from builder.recipes.load import load_recipe
from builder.record.host_facts import cpu_model, host_facts
from builder.smoke.record_start import folder_digest, model_used, registry_digest

ROOT = Path(__file__).parents[3]
INFO: dict[str, Any] = {
    "id": "x", "version": "26.1.5", "client": "", "buildx": "", "buildkit": "", "driver": "",
    "platform": "linux/amd64", "platforms": (), "data_root": Path("/x"), "system": "Debian",
    "machine": "x86_64", "cpus": 2, "memory": 1 << 30}


def an_image(*digests: str) -> ImageFacts:
    return ImageFacts("sha256:1", (), {}, (), digests, 1, "linux/amd64", "", {})


@pytest.mark.parametrize(("reference", "digests", "found"), [
    ("127.0.0.1:5000/s/cpu:cpu", ("127.0.0.1:5000/s/cpu@sha256:a",), "sha256:a"),
    ("127.0.0.1:5000/s/cpu", ("o/cpu@sha256:b", "127.0.0.1:5000/s/cpu@sha256:a"), "sha256:a"),
    ("s/cpu@sha256:a", ("s/cpu@sha256:a",), "sha256:a"),
    ("127.0.0.1:5000/s/cpu:cpu", ("o/cpu@sha256:b",), ""),
    ("s/cpu:cpu", (), "")])
def test_the_digest_is_that_of_the_named_registry(reference: str, digests: tuple[str, ...],
                                                  found: str) -> None:
    assert registry_digest(an_image(*digests), reference) == found


def test_a_folder_of_the_checkout_is_named_by_its_path_there() -> None:
    used = model_used(load_recipe(ROOT, "tiny-gemma4"), ROOT / "tests/fixtures/tiny-gemma4", ROOT)
    assert (used.name, used.path) == ("tiny-gemma4", "tests/fixtures/tiny-gemma4")
    assert used.revision.startswith("sha256:")


def test_any_other_folder_is_named_by_its_last_name_only(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    used = model_used(load_recipe(ROOT, "tiny-gemma4"), tmp_path / "broken", ROOT)
    assert (used.path, str(tmp_path) in used.model_dump_json()) == ("broken", False)


def test_a_repository_is_named_with_its_revision() -> None:
    recipe = load_recipe(ROOT, "gemma4-26b-a4b-fp8")
    used = model_used(recipe, None, ROOT)
    assert (used.repository, used.path) == (recipe.model.repository, "")
    assert used.revision == recipe.model.revision


def test_a_folder_s_digest_changes_with_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = folder_digest(tmp_path)
    (tmp_path / "a").write_text("2")
    second = folder_digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert len({first, second, folder_digest(tmp_path)}) == 3
    (tmp_path / "b").rename(tmp_path / "a")
    (tmp_path / "a").write_text("1")
    assert folder_digest(tmp_path) == first


def test_the_machine_is_described_and_not_named() -> None:
    facts = host_facts(EngineInfo(**INFO, kernel=platform.release())).model_dump_json()
    for name in {platform.node(), getpass.getuser()}:
        assert f'"{name}"' not in facts
    assert "Docker 26.1.5" in facts


def test_the_processor_of_this_machine_is_not_that_of_another() -> None:
    assert host_facts(EngineInfo(**INFO, kernel="another")).cpu == ""


@pytest.mark.parametrize(("text", "said"), [
    ("processor\t: 0\nmodel name\t: A CPU @ 2 GHz\n", "A CPU @ 2 GHz"),
    ("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd85\n",
     "implementer 0x41, part 0xd85"),
    ("", "")])
def test_processors(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert cpu_model(tmp_path) == said
