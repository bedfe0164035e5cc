"""The launch command: complete, quoted, and the same words for the same recipe."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from builder.engine.container import RunSpec, create_options
from builder.recipes.launch import host_folders, launch_key, server_command, template_steps
from builder.recipes.load import load_recipe
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[3]
CELLS = {cell.id: cell for cell in open_workspace(ROOT / "matrix.toml").cells}


def test_the_compile_cache_changes_its_name_with_the_flags_only() -> None:
    recipe, cell = load_recipe(ROOT, "gemma4-31b-nvfp4"), CELLS["tf5"]
    same = recipe.model_copy(update={"description": "other words"})
    other = recipe.model_copy(update={"serve": (*recipe.serve, "--enforce-eager")})
    assert launch_key(same, cell) == launch_key(recipe, cell)
    assert launch_key(other, cell) != launch_key(recipe, cell)
    assert launch_key(recipe, CELLS["latest"]) != launch_key(recipe, cell)


HOSTILE = ("$(touch {0})", "`touch {0}`", "'; touch {0}; '", '"; touch {0}; "', "a & touch {0} &",
           "$HOME", "*", "~", "| touch {0}", "> {0}", "\\", "!!")


def test_a_hostile_template_address_runs_nothing(tmp_path: Path) -> None:
    recipe = load_recipe(ROOT, "gemma4-31b-awq4-light")
    assert recipe.chat_template
    for text in HOSTILE:
        url = "https://127.0.0.1:9/" + text.format(tmp_path / "trap")
        template = recipe.chat_template.model_copy(update={"url": url})
        steps = template_steps(recipe.model_copy(update={"chat_template": template}))
        assert shlex.split(steps[0]) == ["curl", "-fsSLo", "chat_template.jinja", url]
        subprocess.run(["/bin/sh", "-c", "curl() { :; }; " + steps[0]], check=True, cwd=tmp_path)
    assert not (tmp_path / "trap").exists()


def test_a_token_is_handed_on_by_name() -> None:
    words = create_options(RunSpec("image", forwarded_env=("HF_TOKEN",),
                                   writable_mounts=((Path("/a"), "/b"),)))
    assert words[words.index("HF_TOKEN") - 1] == "--env"
    assert "type=bind,src=/a,dst=/b" in words


def test_a_model_in_a_folder_is_served_by_its_place_in_the_container() -> None:
    recipe, cell = load_recipe(ROOT, "tiny-gemma4"), CELLS["cpu"]
    words = server_command(recipe, cell, port=9000)
    assert words[words.index("--model") + 1] == "/models/tiny-gemma4"
    assert words[words.index("--port") + 1] == "9000"
    assert host_folders(recipe, cell) == ()
