"""The policy of moving tags: every error at once; a cell has its image's or the common one."""

from __future__ import annotations

import pytest
from matrices import small

from builder.errors import ConfigError
from builder.matrix.cells import expand
from builder.matrix.load import parse_matrix


def test_an_images_own_policy_comes_before_the_common_one() -> None:
    raw = small()
    raw["promote"] = {"level": "2", "hardware": ["gb10"],
                      "unverified": {"level": "1a", "hardware": ["cpu"]}}
    raw["images"]["cpu"]["promote"] = {"level": "1b", "hardware": ["cpu"], "recipes": ["tiny"]}
    cells = {cell.id: cell.promote for cell in expand(parse_matrix(raw))}
    cpu, tf5 = cells["cpu"], cells["tf5"]
    assert cpu is not None
    assert (cpu.level, cpu.recipes, cpu.unverified) == ("1b", ("tiny",), None)
    assert tf5 is not None
    assert tf5.unverified is not None
    assert (tf5.hardware, tf5.unverified.level) == (("gb10",), "1a")


def test_a_policy_changes_no_lock() -> None:
    raw = small()
    before = [cell.intent_digest for cell in expand(parse_matrix(raw))]
    raw["promote"] = {"level": "2", "hardware": ["gb10"]}
    assert [cell.intent_digest for cell in expand(parse_matrix(raw))] == before


def test_all_errors_of_a_policy_come_at_once() -> None:
    raw = small()
    raw["promote"] = {"level": "3", "hardware": [], "recipe": ["x"],
                      "ignored": [{"record": "sha256:1", "reason": ""}]}
    with pytest.raises(ConfigError) as caught:
        parse_matrix(raw)
    assert {problem.where for problem in caught.value.problems} == {
        "promote.level", "promote.hardware", "promote.recipe", "promote.ignored.0.record",
        "promote.ignored.0.reason"}


def test_an_image_or_one_value_of_an_axis_is_never_promoted() -> None:
    raw = small()
    raw["promote"] = {"level": "2", "hardware": ["gb10"]}
    raw["images"]["cpu"] |= {"never_promote": "it must fail", "transformers": [
        "5.5.4", {"name": "tf4", "spec": "<5"}]}
    raw["images"]["tf5"]["transformers"] = [
        "5.5.4", {"name": "tf4", "spec": "<5", "never_promote": "an older one"}]
    cells = {cell.id: cell for cell in expand(parse_matrix(raw))}
    assert [cells[name].never_promote for name in ("cpu", "cpu-tf4", "tf5", "tf5-tf4")] == [
        "it must fail", "it must fail", "", "an older one"]
    assert [cells[name].promote is not None for name in ("cpu", "cpu-tf4", "tf5", "tf5-tf4")] == [
        False, False, True, False]


def test_a_policy_beside_never_promote_and_an_empty_reason_are_refused() -> None:
    raw = small()
    raw["images"]["cpu"] |= {"never_promote": "", "promote": {"level": "2", "hardware": ["cpu"]}}
    with pytest.raises(ConfigError) as caught:
        parse_matrix(raw)
    assert [problem.where for problem in caught.value.problems] == ["images.cpu.never_promote"]
    raw["images"]["cpu"]["never_promote"] = "it must fail"
    with pytest.raises(ConfigError) as caught:
        parse_matrix(raw)
    assert [problem.where for problem in caught.value.problems] == ["images.cpu.promote"]


def test_how_long_images_are_kept_is_the_images_own_or_the_common_one() -> None:
    raw = small()
    raw["retention"] = {"days": 30}
    raw["images"]["cpu"]["retention"] = {"days": 7}
    cells = {cell.id: cell.retention.days for cell in expand(parse_matrix(raw))}
    assert (cells["cpu"], cells["tf5"]) == (7, 30)
    assert {cell.retention.days for cell in expand(parse_matrix(small()))} == {90}
    raw["retention"] = {"days": -1}
    with pytest.raises(ConfigError):
        parse_matrix(raw)


def test_keys_are_files_of_the_checkout() -> None:
    raw = small()
    raw["promote"] = {"level": "2", "hardware": ["gb10"], "keys": ["keys/ci.pub"]}
    assert {cell.promote.keys for cell in expand(parse_matrix(raw)) if cell.promote} == {
        ("keys/ci.pub",)}
    for wrong in ("/etc/passwd", "--key", ""):
        raw["promote"]["keys"] = [wrong]
        with pytest.raises(ConfigError):
            parse_matrix(raw)
