"""A closure against its own metadata: once where it does not answer, once where it does."""

from __future__ import annotations

import pytest
from cells_for_tests import make_cell, make_lock, make_wheel
from gate_facts import a_wheel

from builder.binaries.facts import WheelFacts
from builder.gate.metadata import (
    check_lock,
    check_parts,
    check_requires,
    check_tags,
    environment,
    is_whole,
)
from builder.locking.findings import Severity

SPARK = environment("3.11", "aarch64")


def codes(*wheels: WheelFacts, **more: tuple[str, ...]) -> list[str]:
    return [found.code for found in check_requires(wheels, SPARK, **more)]


def test_a_missing_and_a_wrong_distribution_are_errors() -> None:
    vllm = a_wheel("vllm", requires=("torch==2.11.0", "numpy"))
    findings = check_requires([vllm, a_wheel("torch", "2.13.0")], SPARK)
    assert [(found.code, found.severity) for found in findings] == [
        ("unmet-requirement", Severity.ERROR)] * 2
    assert "requires torch==2.11.0, but the closure has torch 2.13.0" in findings[0].what
    assert "no numpy" in findings[1].what


def test_a_closure_that_answers_is_quiet() -> None:
    assert codes(a_wheel("vllm", requires=("torch==2.11.0",)), a_wheel("torch", "2.11.0")) == []


def test_a_local_version_answers_for_its_public_one() -> None:
    assert codes(a_wheel("vllm", requires=("torch==2.11.0",)),
                 a_wheel("torch", "2.11.0+cu130")) == []


@pytest.mark.parametrize(("marker", "asked"), [
    ('platform_machine == "aarch64"', True), ('platform_machine == "x86_64"', False),
    ('python_version < "3.12"', True), ('python_full_version < "3.11.0"', False),
    ('sys_platform == "win32"', False), ('extra == "audio"', False)])
def test_markers_are_those_of_the_target(marker: str, asked: bool) -> None:
    found = codes(a_wheel("vllm", requires=(f"absent; {marker}",)))
    assert found == (["unmet-requirement"] if asked else [])


def test_extras_that_somebody_asks_for_count_through_several_steps() -> None:
    a = a_wheel("a", requires=("b[x]",))
    b = a_wheel("b", requires=('c[y]; extra == "x"',))
    c = a_wheel("c", requires=('absent; extra == "y"', 'other; extra == "z"'))
    assert codes(a, b, c) == ["unmet-requirement"]


def test_overrides_are_named_and_what_is_left_out_is_left() -> None:
    vllm = a_wheel("vllm", requires=("transformers<5", "torchvision"))
    found = check_requires([vllm, a_wheel("transformers", "5.5.4")], SPARK,
                           overridden=("transformers",), left_out=("torchvision",))
    assert [(one.code, one.severity) for one in found] == [("overridden", Severity.NOTE)]
    assert "transformers<5" in found[0].expected


def test_wheels_of_which_most_requirements_are_absent_are_no_closure() -> None:
    vllm = a_wheel("vllm", requires=("torch==2.11.0", "numpy", "x; sys_platform == 'win32'"))
    torch = a_wheel("torch", "2.11.0", requires=("filelock",))
    rest = [a_wheel("numpy"), a_wheel("filelock")]
    assert not is_whole([vllm], SPARK)
    assert not is_whole([vllm, torch], SPARK)
    assert is_whole([vllm, torch, *rest], SPARK)
    assert is_whole([vllm, torch, rest[0]], SPARK)  # whole, and broken
    assert is_whole([a_wheel("alone")], SPARK)


def test_parts_are_told_by_one_note_and_what_contradicts_them_by_errors() -> None:
    parts = [a_wheel("vllm", requires=("torch==2.11.0", "numpy", "pillow")),
             a_wheel("torch", "2.13.0", requires=("filelock", "numpy<3"))]
    (found,) = check_requires(parts, SPARK, whole=False)
    assert (found.severity, found.expected) == (Severity.ERROR, "torch==2.11.0")
    note = check_parts(parts, SPARK)
    assert (note.code, note.severity) == ("not-a-closure", Severity.NOTE)
    assert "3 required distributions are absent" in note.what
    assert note.found == "none of filelock, numpy, pillow"
    alone = check_parts([a_wheel("a", requires=("b",))], SPARK)
    assert "1 required distribution is absent" in alone.what


@pytest.mark.parametrize("text", [
    "broken (>=1.0.*) nonsense ;;", "a; " + "(" * 20_000,
    'a; platform_system ~= "x y"', 'a; python_version ~= "not a version"'])
def test_an_unreadable_requirement_is_left_out_as_installers_do(text: str) -> None:
    assert codes(a_wheel("old", requires=(text,))) == []


def test_a_requirement_with_a_number_of_any_length_is_judged() -> None:
    assert codes(a_wheel("old", requires=("a==" + "1" * 5000,)), a_wheel("a")) == [
        "unmet-requirement"]


def test_a_version_that_is_none_satisfies_no_range() -> None:
    odd = WheelFacts("odd.dist-info", "", "odd", "")
    assert codes(a_wheel("a", requires=("odd",)), odd) == []
    assert codes(a_wheel("a", requires=("odd>=1",)), odd) == ["unmet-requirement"]


def test_a_chain_of_extras_ends_where_it_was_requested_to() -> None:
    chain = a_wheel("chain", requires=(
        "chain[e0]", *(f'chain[e{at + 1}]; extra == "e{at}"' for at in range(300)),
        'absent; extra == "e300"', 'other; extra == "e301"'))
    assert codes(chain) == ["unmet-requirement"]


def test_extras_are_compared_as_pip_does() -> None:
    asking = a_wheel("a", requires=("b[Big_Extra]",))
    assert codes(asking, a_wheel("b", requires=('absent; extra == "big-extra"',))) == [
        "unmet-requirement"]


def test_another_version_than_locked_and_one_too_many() -> None:
    cell = make_cell()
    lock = make_lock(cell, make_wheel("torch", "2.11.0"), make_wheel("numpy", "2.0"))
    found = check_lock([a_wheel("torch", "2.13.0"), a_wheel("numpy", "2.0"),
                        a_wheel("intruder")], lock)
    assert [one.code.value for one in found] == ["not-as-locked", "not-locked"]
    assert "torch 2.11.0 is locked, but torch 2.13.0 is installed" in found[0].what


def test_what_is_locked_and_there_is_fine() -> None:
    lock = make_lock(make_cell(), make_wheel("torch", "2.11.0"))
    assert check_lock([a_wheel("torch", "2.11.0")], lock) == ()


@pytest.mark.parametrize("tag", [
    "py3-none-any", "py2.py3-none-any", "cp311-cp311-manylinux_2_28_aarch64",
    "cp38-abi3-manylinux_2_35_aarch64", "cp311-cp311-manylinux_2_17_aarch64.manylinux2014_aarch64",
    "py3-none-linux_aarch64", "cp311-cp311-manylinux_2_39_aarch64.manylinux_2_28_aarch64"])
def test_tags_that_fit(tag: str) -> None:
    assert check_tags([a_wheel("a", tag=tag)], "3.11", "aarch64", "2.36") == ()


@pytest.mark.parametrize("tag", [
    "cp312-cp312-manylinux_2_28_aarch64", "cp312-abi3-manylinux_2_28_aarch64",
    "cp311-cp311-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_39_aarch64",
    "cp311-cp311-win_amd64", "cp311-cp311-macosx_11_0_arm64", "py2-none-any",
    "cp311-cp311-musllinux_1_2_aarch64"])
def test_tags_that_do_not(tag: str) -> None:
    (found,) = check_tags([a_wheel("a", tag=tag)], "3.11", "aarch64", "2.36")
    assert found.code == "wrong-tags"


def test_a_distribution_of_an_image_has_no_tags_to_compare() -> None:
    wheel = WheelFacts("torch-2.11.0.dist-info", "", "torch", "2.11.0")
    assert check_tags([wheel], "3.11", "aarch64", "2.36") == ()
