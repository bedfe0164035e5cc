"""What is kept in a registry: each reason alone keeps an image, and without any it may go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder.errors import NetworkError, UsageError
from builder.promotion.cell import CellTags, promote
from builder.promotion.evidence import RECORD_TYPE, attach_record, mend_evidence
from builder.promotion.retention import note_pushed, recipe_texts, standing
from builder.record.check import Status
from builder.registry.repository import Manifest, Repository, fallback_tag
from tests.unit.fake_repository import Memory, of_image, put_image, repository
from tests.unit.promotion.test_cell import OPTIONS
from tests.unit.promotion.test_verify import POLICY
from tests.unit.record.test_models import a_record

NOW, LONG_AGO = "2026-11-21T00:00:00Z", "2026-01-01T00:00:00Z"


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def tags(memory: Memory) -> CellTags:
    return CellTags(repository(memory), "cpu", POLICY, OPTIONS)


def an_image(tags: CellTags, memory: Memory, name: str, *names: str, pushed: str = LONG_AGO
             ) -> Manifest:
    image = put_image(memory, name, tags=[f"cpu-{name}-abc", *names])
    if pushed:
        note_pushed(tags.repository, image, pushed)
    return image


def why(tags: CellTags, image: Manifest, *pinned: str) -> str:
    return {held.digest: held.why for held in standing([tags], pinned, 90, NOW)}[image.digest]


def test_an_old_image_that_nothing_needs_may_go(tags: CellTags, memory: Memory) -> None:
    image = an_image(tags, memory, "1")
    attach_record(tags.repository, image, of_image(a_record(Status.FAIL), image))
    assert why(tags, image) == ""
    (held,) = standing([tags], [], 90, NOW)
    assert (held.tags, round(held.days or 0)) == (("cpu-1-abc",), 324)


@pytest.mark.parametrize("name", [
    "cpu", "cpu-next", "cpu-unverified", "cpu-20260101", "cpu-unverified-20260101.2"])
def test_what_a_tag_holds_is_kept(tags: CellTags, memory: Memory, name: str) -> None:
    assert why(tags, an_image(tags, memory, "1", name)) == f"the tag {name} holds it"


def test_what_a_record_proves_or_a_log_names_is_kept(tags: CellTags, memory: Memory) -> None:
    image = an_image(tags, memory, "1")
    attach_record(tags.repository, image, of_image(a_record(), image))
    assert why(tags, image).startswith("a record proves it: level 2")
    other = an_image(tags, memory, "2")
    attach_record(tags.repository, other, of_image(a_record(), other))
    promote(tags, image.digest)
    promote(tags, other.digest)
    for name in [name for name in memory.tags if name.startswith("cpu-2026")]:
        del memory.tags[name]
    assert why(tags, image) == "the log of cpu names it"


def test_what_a_recipe_names_is_kept(tags: CellTags, memory: Memory, tmp_path: Path) -> None:
    image = an_image(tags, memory, "1")
    assert why(tags, image, "image = 'cpu-1-abc'") == "a recipe names cpu-1-abc"
    (tmp_path / "r.toml").write_text(f'image = "r/cpu@{image.digest}"')
    assert why(tags, image, *recipe_texts(tmp_path)) == "a recipe names its digest"


def test_what_has_a_record_that_cannot_be_read_is_kept(tags: CellTags, memory: Memory) -> None:
    image = an_image(tags, memory, "1")
    tags.repository.attach(image, RECORD_TYPE, b'{"record_version": 99}', {}, "record.json")
    assert why(tags, image).startswith("a record is attached that does not count: sha256:")


def test_what_may_have_lost_the_record_that_proves_it_is_kept(
        tags: CellTags, memory: Memory) -> None:
    image = an_image(tags, memory, "1")
    assert why(tags, image) == ""
    memory.damaged.add(fallback_tag(image.digest))
    mend_evidence(tags.repository, image, NOW)
    assert why(tags, image) == "records of it were lost, and one may prove it"


def test_what_leaves_the_registry_meanwhile_is_not_called_free(
        tags: CellTags, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    image = an_image(tags, memory, "1")
    real = Repository.manifest
    monkeypatch.setattr(Repository, "manifest", lambda self, name: (
        None if name == image.digest else real(self, name)))
    assert why(tags, image) == "what is attached to it cannot be read"


@pytest.mark.parametrize(("pushed", "reason"), [
    ("", "not known when"), ("2026-11-01T00:00:00Z", "20 days ago"),
    ("2031-01-01T00:00:00Z", "days ago"), ("yesterday", "not known when")])
def test_what_is_young_or_of_unknown_age_is_kept(
        tags: CellTags, memory: Memory, pushed: str, reason: str) -> None:
    assert reason in why(tags, an_image(tags, memory, "1", pushed=pushed))


def test_the_first_push_is_the_one_that_counts(tags: CellTags, memory: Memory) -> None:
    image = an_image(tags, memory, "1")
    note_pushed(tags.repository, image, NOW)
    assert why(tags, image) == ""


def test_the_tags_and_the_log_of_a_cell_that_is_gone_or_never_promoted_now_still_hold(
        tags: CellTags, memory: Memory) -> None:
    image = an_image(tags, memory, "1")
    attach_record(tags.repository, image, of_image(a_record(), image))
    promote(tags, image.digest)
    other = CellTags(tags.repository, "cpu-tf4", None, OPTIONS)
    (held,) = standing([other], [], 90, NOW)
    assert held.why.startswith("the tag cpu")
    for name in [name for name in memory.tags if name == "cpu" or name.startswith("cpu-2026")]:
        del memory.tags[name]
    (held,) = standing([other], [], 90, NOW)
    assert held.why == "the log of cpu names it"


def test_entries_of_logs_and_lists_of_referrers_are_no_images(
        tags: CellTags, memory: Memory) -> None:
    image = an_image(tags, memory, "1")
    attach_record(tags.repository, image, of_image(a_record(), image))
    promote(tags, image.digest)
    put_image(memory, "signature", tags=[f"sha256-{'0' * 64}.sig"])
    assert [held.digest for held in standing([tags], [], 90, NOW)] == [image.digest]


def test_a_registry_that_does_not_delete_says_how(tags: CellTags, memory: Memory) -> None:
    image = an_image(tags, memory, "1")
    memory.deletes = False
    with pytest.raises(NetworkError, match="does not allow to delete"):
        tags.repository.delete(image.digest)
    memory.deletes = True
    tags.repository.delete(image.digest)
    assert "cpu-1-abc" not in memory.tags


def test_a_recipe_that_is_no_file_is_an_error_and_no_wait(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_bytes(b"image = 'x' # \xff")
    assert recipe_texts(tmp_path) == ["image = 'x' # \N{REPLACEMENT CHARACTER}"]
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(UsageError, match="a recipe must be a regular file"):
        recipe_texts(tmp_path)
