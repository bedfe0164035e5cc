"""uv's words, turned into keys of the matrix, without an address."""

from __future__ import annotations

from pathlib import Path

from cells_for_tests import CPU, GPU, make_cell

from builder.indexes.settings import Sources
from builder.locking.explanations import keys_in, matrix_keys, plain, reason_line, unsolvable

USER = Sources("https://user:secret@mirror.example/simple/", find_links=("/some/wheels",))
WORDS = """error: No solution found when resolving dependencies
  cause: Because vllm==0.19.0 depends on transformers>=4.56.0,<5 and you require vllm==0.19.0,
         we can conclude that you require transformers>=4.56.0,<5."""


def test_every_package_of_the_matrix_has_its_key() -> None:
    cell = make_cell({**GPU, "base": "slim", "torch": "2.11.0", "transformers": ">=5.5.1",
                      "requires": ["fastsafetensors"], "leave_out": ["torchaudio"]}, "tf5-0.19")
    assert matrix_keys(cell) == {
        "vllm": 'images."tf5-0.19".vllm', "torch": 'images."tf5-0.19".torch',
        "transformers": 'images."tf5-0.19".transformers',
        "fastsafetensors": 'images."tf5-0.19".requires',
        "nvidia-cuda-nvcc": "bases.slim.toolchain", "torchaudio": 'images."tf5-0.19".leave_out'}


def test_the_error_names_the_keys_that_contradict_each_other() -> None:
    cell = make_cell({**GPU, "vllm": "0.19.0", "transformers": ">=5.5.1"}, "tf5")
    error = unsolvable(WORDS, cell, USER)
    assert error.where == "images.tf5.vllm, images.tf5.transformers"
    assert "depends on transformers>=4.56.0,<5" in error.what
    assert "override = true" in error.next_step


def test_a_package_at_the_end_of_a_sentence_is_recognised() -> None:
    cell = make_cell({**CPU, "torch": "2.13.0"})
    assert keys_in("you need torch.", cell) == ("images.img.torch",)


def test_where_no_wish_is_spoken_of_vllm_is_the_culprit() -> None:
    error = unsolvable("And because sparkyard-cell depends on x, no", make_cell(CPU), USER)
    assert error.where == "images.img.vllm"
    assert error.what.endswith("because the matrix asks for x, no")
    assert "override" not in error.next_step  # nothing else that it could override


def test_no_address_and_no_secret_survives() -> None:
    cell = make_cell({**CPU, "indexes": ["up"]},
                     indexes={"up": {"url": "https://up.example/whl", "packages": ["torch"]}})
    text = plain("error: A\n  cause: https://user:secret@mirror.example/simple/pip/ and "
                 "https://up.example/whl/torch/ and https://else.example/x and /some/wheels",
                 cell, USER)
    assert "example" not in text
    assert "secret" not in text
    assert "/some/wheels" not in text
    assert 'the "default" index/pip/' in text
    assert 'the index "up"' in text


def test_a_reason_is_one_line_without_this_machine_s_paths() -> None:
    assert reason_line("a\n  b at /home/me/x/locks/c.toml ", Path("/home/me/x")
                    ) == "a b at locks/c.toml"
