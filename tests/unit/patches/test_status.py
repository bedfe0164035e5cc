"""Verdicts on series of patches: each standing, and the four ways upstream projects got hurt."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from patch_wheels import diff, make_wheel

from builder.errors import PatchError
from builder.patches.status import (
    Candidate,
    Standing,
    Verdict,
    applied_tags,
    judge,
    require,
    standings,
)
from builder.patches.wheel_tree import open_tree

ONE = "".join(f"line_{number} = {number}\n" for number in range(30))
FIXED = ONE.replace("line_5 = 5\n", "line_5 = 'fixed'\n")
LATER = ONE.replace("line_20 = 20\n", "line_20 = 'later'\n")
FIX, LATE = diff("vllm/one.py", ONE, FIXED), diff("vllm/one.py", ONE, LATER)


def judged(folder: Path, source: str, *series: Candidate) -> tuple[Verdict, ...]:
    wheel = make_wheel(folder, {"vllm/__init__.py": b"", "vllm/one.py": source.encode()})
    with open_tree(wheel) as tree:
        return judge(tree, series).verdicts


def patch(data: bytes | None, tag: str = "1", **options: bool | tuple[str, ...]) -> Candidate:
    return Candidate(f"vllm-project/vllm#{tag}", tag, data, **options)  # type: ignore[arg-type]


def standing_of(folder: Path, source: str, *series: Candidate) -> list[Standing]:
    return [verdict.standing for verdict in judged(folder, source, *series)]


@pytest.mark.parametrize(("source", "data", "standing"), [
    (ONE, FIX, Standing.APPLIES),
    ("# moved\n" * 40 + ONE, FIX, Standing.APPLIES),
    (FIXED, FIX, Standing.UPSTREAM),
    (FIXED.replace("line_4 = 4", "line_4 = 'new'"), FIX, Standing.SUPERSEDED),
    (ONE.replace("line_5 = 5", "line_5 = 'other'"), FIX, Standing.CONFLICT),
    (ONE, FIX + diff("csrc/cache.cu", "a\n", "b\n"), Standing.COMPILE),
    (ONE, diff("setup.py", "a\n", "b\n"), Standing.COMPILE),
    (ONE, None, Standing.UNRESOLVED),
    (ONE, diff("requirements/common.txt", "a\n", "b\n"), Standing.CONFLICT),
])
def test_standings(tmp_path: Path, source: str, data: bytes | None, standing: Standing) -> None:
    assert standing_of(tmp_path, source, patch(data)) == [standing]


def test_a_wheel_that_was_published_damaged_is_said_to_be_so(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, {"vllm/one.py": ONE.encode()})
    with zipfile.ZipFile(wheel) as archive:
        start = archive.getinfo("vllm/one.py").header_offset + 30 + len("vllm/one.py")
    data = bytearray(wheel.read_bytes())
    data[start:start + 40] = b"\xff" * 40
    wheel.write_bytes(data)
    with pytest.raises(PatchError, match="the wheel cannot be read"):
        standings(wheel, "0" * 64, [patch(FIX)], tmp_path)


def test_a_conflict_shows_file_hunk_and_both_sides(tmp_path: Path) -> None:
    source = ONE.replace("line_5 = 5", "line_5 = 'other'")
    conflict = judged(tmp_path, source, patch(FIX))[0].conflicts[0]
    assert (conflict.path, conflict.line, conflict.hunk) == ("vllm/one.py", 6, "@@ -3,7 +3,7 @@")
    assert conflict.expected[0] == "line_5 = 5"
    assert conflict.found[0] == "line_5 = 'other'"


def test_a_revert_is_the_other_way_round(tmp_path: Path) -> None:
    undo = patch(FIX, undo=True)
    assert standing_of(tmp_path, FIXED, undo) == [Standing.APPLIES]
    assert standing_of(tmp_path, ONE, undo) == [Standing.UPSTREAM]


def test_an_unrelated_file_is_not_taken_for_a_superseded_one(tmp_path: Path) -> None:
    """Only some of the lines are there: nobody has brought the patch."""
    data = diff("vllm/one.py", ONE, ONE.replace("line_5 = 5\n", "first = 1\nsecond = 2\n"))
    source = ONE.replace("line_5 = 5\n", "first = 1\n")
    assert standing_of(tmp_path, source, patch(data)) == [Standing.CONFLICT]


# The four ways: https://github.com/eugr/spark-vllm-docker/issues/217, 167, 344 and 226.

def test_a_required_patch_that_does_not_apply_is_never_skipped(tmp_path: Path) -> None:
    series = [patch(FIX)]
    verdicts = judged(tmp_path, ONE.replace("line_5 = 5", "line_5 = 'other'"), *series)
    with pytest.raises(PatchError, match="line_5 = 'other'") as error:
        require("cell", series, verdicts)
    assert error.value.exit_code == 6
    assert "conflict" in require("cell", [patch(FIX, required=False)], verdicts)[0]


def test_a_hunk_of_a_test_file_blocks_nothing(tmp_path: Path) -> None:
    series = [patch(diff("tests/v1/test_one.py", "gone\n", "new\n") + FIX)]
    verdicts = judged(tmp_path, ONE, *series)
    assert verdicts[0].standing is Standing.APPLIES
    assert verdicts[0].left_out == ("tests/v1/test_one.py",)
    assert require("cell", series, verdicts) == []


def test_a_superseded_patch_does_not_stop_the_next(tmp_path: Path) -> None:
    series = [patch(FIX, "1"), patch(LATE, "2")]
    verdicts = judged(tmp_path, FIXED.replace("line_4 = 4", "line_4 = 'new'"), *series)
    assert [verdict.standing for verdict in verdicts] == [Standing.SUPERSEDED, Standing.APPLIES]
    assert "superseded" in require("cell", series, verdicts)[0]
    assert applied_tags(series, verdicts) == ("2",)


def test_a_patch_that_an_old_ref_already_has_is_dropped_with_a_word(tmp_path: Path) -> None:
    series = [patch(FIX, "1"), patch(LATE, "2")]
    verdicts = judged(tmp_path, FIXED, *series)
    assert [verdict.standing for verdict in verdicts] == [Standing.UPSTREAM, Standing.APPLIES]
    assert require("cell", series, verdicts) == [
        "patch vllm-project/vllm#1 is left out: already upstream (found in the sources)"]


def test_what_an_earlier_patch_of_the_series_brings_is_superseded(tmp_path: Path) -> None:
    found = standing_of(tmp_path, ONE, patch(FIX, "1"), patch(FIX, "2"))
    assert found == [Standing.APPLIES, Standing.SUPERSEDED]


def test_patches_build_on_each_other(tmp_path: Path) -> None:
    again = diff("vllm/one.py", FIXED, FIXED.replace("'fixed'", "'better'"))
    assert standing_of(tmp_path, ONE, patch(FIX, "1"), patch(again, "2")) == [Standing.APPLIES] * 2
    assert standing_of(tmp_path, ONE, patch(again, "2"), patch(FIX, "1")) == [
        Standing.CONFLICT, Standing.APPLIES]


def test_paths_to_take_and_to_leave(tmp_path: Path) -> None:
    both = FIX + diff("vllm/gone.py", "a\n", "b\n")
    assert standing_of(tmp_path, ONE, patch(both)) == [Standing.CONFLICT]
    assert standing_of(tmp_path, ONE, patch(both, exclude=("vllm/gone.py",))) == [Standing.APPLIES]
    assert standing_of(tmp_path, ONE, patch(both, include=("vllm/one*",))) == [Standing.APPLIES]


def test_verdicts_are_kept_by_wheel_and_patches(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, {"vllm/one.py": ONE.encode()})
    first = standings(wheel, "0" * 64, [patch(FIX)], tmp_path)
    wheel.unlink()
    assert standings(wheel, "0" * 64, [patch(FIX)], tmp_path) == first
    with pytest.raises(PatchError):
        standings(wheel, "1" * 64, [patch(FIX)], tmp_path)
    with pytest.raises(PatchError):
        standings(wheel, "0" * 64, [patch(LATE)], tmp_path)
    for file in tmp_path.rglob("*.json"):
        file.write_text("{")
    with pytest.raises(PatchError):
        standings(wheel, "0" * 64, [patch(FIX)], tmp_path)


def test_what_is_compiled_into_the_wheel_leaves_the_rest_to_apply(tmp_path: Path) -> None:
    native = diff("csrc/cache.cu", "a\n", "b\n")
    assert standing_of(tmp_path, ONE, patch(native, compiled=True)) == [Standing.COMPILED]
    assert standing_of(tmp_path, ONE, patch(native + FIX, compiled=True)) == [Standing.APPLIES]
    series = [patch(native, compiled=True)]
    assert require("cell", series, judged(tmp_path, ONE, *series)) == []
    assert patch(native).key != patch(native, compiled=True).key
