"""GPUs and CUDA versions that cannot be, and those that can."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from matrices import small
from packaging.version import Version

from builder.matrix.gpus import FIRST_CUDA, NEWEST_CUDA, wrong_gpu
from builder.matrix.load import load_matrix
from builder.matrix.references import wrong_references


@pytest.mark.parametrize(("gpu", "cuda"), [
    ("sm_121", "13.0"), ("sm_121", "12.9"), ("sm_90", "12.8"), ("sm_121", "13.99"), (None, None),
    ("121", "?"), (5, []), ("sm_121", "13." + "0" * 5000)])
def test_what_can_be_and_what_has_not_the_form_is_left_alone(gpu: object, cuda: object) -> None:
    assert list(wrong_gpu(gpu, cuda)) == []


@pytest.mark.parametrize(("gpu", "cuda", "found"), [
    ("sm_999", "13.0", ("gpu", "sm_999 is no GPU that CUDA compiles for", "known: sm_75, ")),
    ("sm_122", "13.0", ("gpu", "sm_122 is no GPU", "known: ")),
    ("sm_121", "99.99", ("cuda", "no CUDA 99.99 is known; the newest is 13.x", "write it like")),
    ("sm_121", "12.8", ("cuda", "CUDA 12.8 does not compile for sm_121", "the first that does"))])
def test_what_cannot_be_is_named_with_what_can(gpu: str, cuda: str, found: tuple[str, str, str]
                                               ) -> None:
    ((key, what, step),) = wrong_gpu(gpu, cuda)
    assert key == found[0]
    assert what.startswith(found[1])
    assert step.startswith(found[2])


def test_the_matrix_names_the_key() -> None:
    raw = small()
    raw["images"]["tf5"] |= {"gpu": "sm_999", "cuda": "99.99"}
    assert {problem.where for problem in wrong_references(raw)} == {
        "images.tf5.gpu", "images.tf5.cuda"}


def test_a_later_gpu_of_a_generation_has_no_earlier_cuda() -> None:
    by_generation: dict[str, list[Version]] = {}
    for gpu in sorted(FIRST_CUDA, key=lambda name: int(name[3:])):
        if gpu != "sm_88":  # an embedded one that came later than its neighbours
            by_generation.setdefault(gpu[:-1], []).append(Version(FIRST_CUDA[gpu]))
    assert all(one <= other for found in by_generation.values() for one, other in pairwise(found))
    newest = max(Version(cuda).major for cuda in FIRST_CUDA.values())
    assert newest == NEWEST_CUDA


def test_every_image_of_the_matrix_is_good() -> None:
    matrix = load_matrix(Path(__file__).parents[3] / "matrix.toml")
    assert all(not list(wrong_gpu(image.gpu, image.cuda)) for image in matrix.images.values())
