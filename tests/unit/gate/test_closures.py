"""Loose wheels and finished images: what they are judged for, and what a name promises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cells_for_tests import CPU, make_cell
from elf_files import elf_file, make_wheel
from gate_facts import NVIDIA, TOOLS, a_base, a_wheel

from builder.binaries.facts import Code, ElfFacts, Form
from builder.binaries.image_facts import ImageFacts
from builder.errors import UsageError
from builder.gate.closures import judge_image, judge_wheels
from builder.gate.judge import GateReport
from builder.locking.findings import Severity

SASS = Code(Form.SASS, 121, "", 1, 100)
CUDA = ElfFacts("torch/lib/libtorch_cuda.so", "aarch64", cuda=(SASS,))
GOOD = {"vllm": "0.20.2", "transformers": "5.5.4", "flashinfer-python": "0.6.8",
        "nvidia-cuda-runtime": "13.0.96"}


def an_image(**versions: str) -> ImageFacts:
    """Return an image with CUDA's torch; versions replace those of a good one."""
    changed = {**GOOD, **{name.replace("_", "-"): value for name, value in versions.items()}}
    wheels = [a_wheel(name, version) for name, version in changed.items() if version]
    torch = a_wheel("torch", "2.11.0", elves=(CUDA,), members=NVIDIA)
    return ImageFacts(a_base(tools=TOOLS), (*wheels, torch))


def codes(report: GateReport) -> list[str]:
    return [one.code.value for one in report.errors]


def test_an_image_that_holds_what_its_name_promises_passes() -> None:
    assert codes(judge_image("someone/vllm:tf5-gemma4", an_image())) == []


@pytest.mark.parametrize(("name", "versions", "expected"), [
    ("someone/vllm:0.19-tf5", {"transformers": "4.57.6"}, "no-transformers5"),
    ("vllm/vllm-openai:gemma4", {"vllm": "0.18.2rc1.dev73"}, "gemma4-unsupported"),
    ("someone/vllm:gemma4", {"transformers": "4.57.6"}, "gemma4-unsupported"),
    ("someone/vllm", {"flashinfer-cubin": "0.6.6"}, "mixed-flashinfer"),
    ("someone/vllm", {"nvidia-cuda-nvcc": "13.5.1"}, "mixed-cuda")])
def test_what_its_packages_say_against_it(
        name: str, versions: dict[str, str], expected: str) -> None:
    assert codes(judge_image(name, an_image(**versions))) == [expected]


def test_an_image_that_promises_nothing_may_hold_old_packages() -> None:
    assert codes(judge_image("someone/vllm:old", an_image(transformers="4.57.6"))) == []


def test_a_cpu_torch_beside_nvidias_wheels() -> None:
    image = an_image()
    plain = a_wheel("torch", "2.10.0", members=NVIDIA)
    wheels = (*(one for one in image.wheels if one.name != "torch"), plain)
    assert codes(judge_image("someone/vllm", ImageFacts(image.base, wheels))) == [
        "cpu-torch"]


def test_an_image_without_a_compiler() -> None:
    image = ImageFacts(a_base(tools=TOOLS[1:]), an_image().wheels)
    assert codes(judge_image("someone/vllm", image)) == ["toolchain-missing"]


def test_what_our_own_matrix_overrides_is_no_fault_of_our_image() -> None:
    image = an_image()
    needy = a_wheel("needy", requires=("transformers<5",))
    judged = ImageFacts(image.base, (*image.wheels, needy))
    assert codes(judge_image("x", judged)) == ["unmet-requirement"]
    cell = make_cell({**CPU, "transformers": {"spec": "5.5.4", "override": True}})
    assert codes(judge_image("x", judged, cell)) == []


def test_an_image_without_python_is_a_wrong_name() -> None:
    with pytest.raises(UsageError, match="has no Python distributions"):
        judge_image("debian", ImageFacts(a_base(), ()))


def test_wheels_must_have_a_wheels_name(tmp_path: Path) -> None:
    path = tmp_path / "torch.whl"
    path.write_bytes(b"")
    with pytest.raises(UsageError, match="not a valid name of a wheel"):
        judge_wheels([path], None, tmp_path)


def test_two_wheels_of_one_distribution_are_two_questions(tmp_path: Path) -> None:
    pair = [make_wheel(tmp_path, {}, version=version) for version in ("1.0", "2.0")]
    with pytest.raises(UsageError, match=r"thing is given twice, as thing-1.0.* and thing-2.0"):
        judge_wheels(pair, None, tmp_path)


def test_a_lone_wheel_is_a_part_and_its_closure_a_whole(tmp_path: Path) -> None:
    code = {"top/_C.abi3.so": elf_file(needed=["libbottom.so"])}
    top = make_wheel(tmp_path, code, name="top", requires=("middle", "bottom"))
    middle = make_wheel(tmp_path, {}, name="middle", requires=("bottom>1",))
    bottom = make_wheel(tmp_path, {}, name="bottom")
    alone = judge_wheels([top], a_base(), tmp_path)
    assert alone.subject == "1 wheel"
    assert [(one.code, one.severity) for one in alone.findings] == [
        ("not-a-closure", Severity.NOTE)]
    whole = judge_wheels([top, middle, bottom], a_base(), tmp_path)
    assert [one.code for one in whole.findings] == ["unmet-requirement", "missing-library"]


def test_a_broken_wheel_is_a_finding_and_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "torch-2.11.0-cp311-cp311-manylinux_2_28_aarch64.whl"
    path.write_bytes(b"PK\3\4 cut short")
    report = judge_wheels([path], a_base(), tmp_path)
    assert "wheel-unreadable" in {one.code for one in report.errors}


@pytest.mark.parametrize(("name", "step"), [
    ("findings.json", "files that end in .whl"), ("thing.whl", "rename the file")])
def test_only_a_wheel_is_told_to_be_renamed(tmp_path: Path, name: str, step: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UsageError) as caught:
        judge_wheels([tmp_path / name], None, tmp_path)
    assert step in caught.value.next_step


def test_an_image_for_another_processor_is_refused() -> None:
    image = an_image()
    other = replace(image, base=replace(image.base, platform="linux/s390x"))
    with pytest.raises(UsageError, match="cannot judge images for linux/s390x"):
        judge_image("x", other)
