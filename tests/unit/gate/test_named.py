"""Names on the command line: bases that a cell does not have, typos, and no image's name."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrices import small

from builder.engine.client import Engine
from builder.errors import NetworkError, UsageError
from builder.gate import named
from builder.gate.named import any_image, cells_on
from builder.matrix.cells import Cell, expand
from builder.matrix.models import Matrix

BASES = ("cuda", "slim")


@pytest.fixture(scope="module")
def cells() -> tuple[Cell, ...]:
    return expand(Matrix.model_validate(small()))


def test_a_base_that_the_cell_does_not_have_names_those_that_it_may_have(
        cells: tuple[Cell, ...]) -> None:
    for pattern, known in (("cpu", "cpu can have slim"), ("tf5-slim", "tf5 can have cuda, slim")):
        with pytest.raises(UsageError) as caught:
            cells_on(cells, [pattern], "cuda")
        assert caught.value.what == f'no cell of "{pattern}" has the base cuda'
        assert caught.value.next_step == known
    with pytest.raises(UsageError, match='no cell matches "cpx"'):
        cells_on(cells, ["cpx"], "slim")


def test_a_base_chooses_among_an_images_cells(cells: tuple[Cell, ...]) -> None:
    assert {cell.id for cell in cells_on(cells, ["tf5"], "slim")} == {"tf5-slim",
                                                                      "tf5-slim-0.21.0"}
    assert [cell.id for cell in cells_on(cells, ["tf5"], None)] == ["tf5"]
    assert {cell.image for cell in cells_on(cells, [], "cuda")} == {"tf5"}


class FakeEngine:
    """An engine without images, in front of a registry that does not answer."""

    def inspect(self, reference: str) -> None:
        """Know no image."""

    def pull(self, reference: str, platform: str | None) -> None:
        """Fail."""
        raise NetworkError(f"pulling {reference}", next_step="check the network")


@pytest.mark.parametrize(("reference", "kind", "words"), [
    ("slm", UsageError, ('perhaps you meant "slim"', "bases cuda, slim")),
    ("debian:none", NetworkError, ("check the network", "bases cuda, slim"))])
def test_what_is_neither_a_base_nor_an_image_is_told_the_bases(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reference: str,
        kind: type[UsageError], words: tuple[str, ...]) -> None:
    monkeypatch.setattr(Engine, "connect", staticmethod(FakeEngine))
    with pytest.raises(kind) as caught:
        any_image(reference, "linux/arm64", tmp_path, BASES)
    assert all(word in caught.value.next_step for word in words)


def test_an_image_that_sounds_like_a_base_is_taken(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Stocked(FakeEngine):
        def inspect(self, reference: str) -> str:  # type: ignore[override]
            return f"image {reference}"

    monkeypatch.setattr(Engine, "connect", staticmethod(Stocked))
    monkeypatch.setattr(named, "at_hand", lambda engine, name, platform: engine.inspect(name))
    monkeypatch.setattr(named, "of_image", lambda engine, image, cache, name: image)
    assert str(any_image("slim2", None, tmp_path, BASES)) == "image slim2"
