"""A cell's tags by the matrix's policy: its own, or the one that says it is unverified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builder.errors import UsageError
from builder.matrix.promotion import Promotion, Requirement
from builder.promotion.cell import CellTags, check_keys, find_image, promotable, promote, tags_of
from builder.promotion.evidence import UnprovenError, attach_record
from tests.unit.cells_for_tests import make_cell
from tests.unit.fake_repository import Memory, of_image, put_image, repository
from tests.unit.record.test_models import SPARK, a_record

SPARKS = Promotion(level="2", hardware=("gb10",),
                   unverified=Requirement(level="1a", hardware=("cpu",)))
OPTIONS: dict[str, Any] = {"settle": lambda: None, "clock": lambda: "2026-11-21T00:00:00Z"}


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def tags(memory: Memory) -> CellTags:
    return CellTags(repository(memory), "cpu", SPARKS, OPTIONS)


def test_without_a_gb10_only_the_unverified_tag_moves(memory: Memory, tags: CellTags) -> None:
    image = put_image(memory, "x", tags=["cpu-next"])
    attach_record(tags.repository, image, of_image(a_record(), image))
    done = promote(tags, find_image(tags).digest)
    assert (done.moved.tag, done.dated) == ("cpu-unverified", "cpu-unverified-20261121")
    assert "level 2 on gb10" in done.lacking
    assert memory.tags["cpu-unverified"] == image.digest
    assert "cpu" not in memory.tags
    assert tags.unverified is not None
    assert tags.unverified.history()[0].entry.unverified


def test_a_gb10s_record_moves_the_tag_itself(memory: Memory, tags: CellTags) -> None:
    image = put_image(memory, "x", tags=["cpu-next"])
    spark = a_record().model_copy(update={"gpus": (SPARK,)})
    attach_record(tags.repository, image, of_image(spark, image))
    done = promote(tags, image.digest)
    assert (done.moved.tag, done.dated, done.lacking) == ("cpu", "cpu-20261121", "")
    again = promote(tags, image.digest)
    assert (again.moved.entry, again.dated) == (None, "cpu-20261121")


def test_without_any_evidence_nothing_moves(memory: Memory, tags: CellTags) -> None:
    image = put_image(memory, "x")
    with pytest.raises(UnprovenError, match="level 1a on cpu"):
        promote(tags, image.digest)
    with pytest.raises(UnprovenError):
        promote(CellTags(tags.repository, "cpu", SPARKS.model_copy(
            update={"unverified": None}), OPTIONS), image.digest)
    assert memory.tags == {}


def test_an_image_that_is_not_pushed_names_the_command(tags: CellTags) -> None:
    with pytest.raises(UsageError) as caught:
        find_image(tags)
    assert caught.value.where.endswith("team/cpu:cpu-next")
    assert "push" in caught.value.next_step
    with pytest.raises(UsageError) as caught:
        find_image(tags, "cpu-of-nobody")
    assert "./nox -s tags -- cpu" in caught.value.next_step


def test_a_matrix_without_policy_is_said() -> None:
    with pytest.raises(UsageError, match="does not say what this image must show"):
        assert tags_of(make_cell(), "127.0.0.1:5000/team", Path()).own
    assert tags_of(make_cell(), "127.0.0.1:5000/team", Path()).all() == []
    cell = make_cell().model_copy(update={"promote": SPARKS})
    assert [tag.tag for tag in tags_of(cell, "127.0.0.1:5000/team", Path()).all()] == [
        "img", "img-unverified"]


def test_a_cell_that_is_never_promoted_says_why_and_leaves_the_others_alone(
        capsys: pytest.CaptureFixture[str]) -> None:
    good = make_cell().model_copy(update={"promote": SPARKS})
    never = make_cell().model_copy(update={"id": "img-tf4", "never_promote": "it must fail"})
    with pytest.raises(UsageError, match="never promoted: it must fail") as caught:
        promotable([never])
    assert caught.value.where == "matrix.toml: images.img, cell img-tf4"
    assert promotable([never, good]) == (good,)
    assert "left out: matrix.toml: images.img, cell img-tf4" in capsys.readouterr().err
    tags = tags_of(never, "127.0.0.1:5000/team", Path())
    assert tags.unverified is None
    with pytest.raises(UsageError, match="it must fail"):
        promote(tags, "sha256:" + "0" * 64)


def test_a_policys_key_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                  ) -> None:
    (tmp_path / "cosign").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    signed = make_cell().model_copy(
        update={"promote": SPARKS.model_copy(update={"keys": ("own.pub",)})})
    with pytest.raises(UsageError, match="no such key") as caught:
        check_keys([make_cell(), signed], tmp_path)
    assert caught.value.where == (f"matrix.toml: the key of {signed.id}'s promotion, "
                                  f"{tmp_path / 'own.pub'}")
    (tmp_path / "own.pub").touch()
    check_keys([signed], tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    check_keys([make_cell()], tmp_path)
    with pytest.raises(UsageError, match="cosign is not installed"):
        check_keys([signed], tmp_path)
