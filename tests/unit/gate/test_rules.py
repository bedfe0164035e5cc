"""The order of loading that ships with the gate: every entry decides, on ELF files made for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from elf_files import elf_file, make_wheel
from gate_facts import a_base

from builder.binaries.facts import WheelFacts
from builder.binaries.wheel_facts import read_wheel
from builder.gate.abi import Target, check_abi
from builder.gate.rules import After, Rules, rules

TARGET = Target("3.11", "aarch64", cuda=True)
TAG = "cpython-311-aarch64-linux-gnu.so"
# An extension under each entry's pattern; the others' libraries are what it needs besides torch.
EXTENSIONS = {
    "vllm/*": "vllm/_C.abi3.so",
    "torchvision/*": f"torchvision/image.{TAG}",
    "torchaudio/*": "torchaudio/lib/_torchaudio.abi3.so",
    "torio/*": f"torio/lib/_torio_ffmpeg6.{TAG}",
    "torchcodec/*": f"torchcodec/_core/pybind_ops.{TAG}",
    "xgrammar/*": f"xgrammar/xgrammar_bindings.{TAG}",
    "flashinfer*/*": f"flashinfer_jit_cache/jit_cache/norm/norm.{TAG}",
    "*tvm_ffi*": f"tvm_ffi/core_torch.{TAG}",
}
AFTER = {rule.pattern: rule for rule in rules().after}
WITH_TVM = [name for name, rule in AFTER.items() if "tvm_ffi/lib/*" in rule.loaded]
SYMBOL = "_ZN2at9from_blobEv"


def installed(folder: Path, **files: bytes) -> list[WheelFacts]:
    """Return wheels of torch and tvm_ffi, and one of ``files`` (underscored names are given)."""
    torch = {f"torch/_C.{TAG}": elf_file(needed=["libtorch.so"], rpath="$ORIGIN/lib"),
             "torch/lib/libtorch.so": elf_file(soname="libtorch.so", defined=[SYMBOL])}
    tvm = {"tvm_ffi/lib/libtvm_ffi.so": elf_file(soname="libtvm_ffi.so", defined=["TVMFFIAny"])}
    wheels = {"torch": torch, "apache_tvm_ffi": tvm, "thing": files}
    return [read_wheel(make_wheel(folder, members, name=name), name)
            for name, members in wheels.items()]


def without(rule: After) -> Rules:
    return rules().model_copy(update={"after": tuple(
        one for one in rules().after if one != rule)})


def judged(wheels: list[WheelFacts], known: Rules) -> list[tuple[str, str]]:
    return [(one.code, one.expected) for one in check_abi(wheels, a_base(), TARGET, known)]


def test_every_entry_has_a_case_here() -> None:
    assert set(EXTENSIONS) == set(AFTER)
    assert len(AFTER) == len(rules().after)


@pytest.mark.parametrize("pattern", EXTENSIONS)
def test_what_lives_off_torch_is_quiet_by_its_entry_alone(tmp_path: Path, pattern: str) -> None:
    own = elf_file(needed=["libtorch.so"], undefined=[SYMBOL])
    wheels = installed(tmp_path, **{EXTENSIONS[pattern]: own})
    assert judged(wheels, rules()) == []
    assert judged(wheels, without(AFTER[pattern])) == [("missing-library", "libtorch.so")]


@pytest.mark.parametrize("pattern", EXTENSIONS)
def test_an_entry_hides_no_symbol_that_torch_lacks(tmp_path: Path, pattern: str) -> None:
    own = elf_file(needed=["libtorch.so"], undefined=["_ZN2at4goneEv"])
    assert judged(installed(tmp_path, **{EXTENSIONS[pattern]: own}), rules()) == [
        ("undefined-symbol", "at::gone()")]


@pytest.mark.parametrize("pattern", EXTENSIONS)
def test_tvm_ffis_library_is_there_for_those_that_import_it(tmp_path: Path, pattern: str) -> None:
    own = elf_file(needed=["libtvm_ffi.so"], undefined=["TVMFFIAny"])
    expected = [] if pattern in WITH_TVM else [("missing-library", "libtvm_ffi.so")]
    assert judged(installed(tmp_path, **{EXTENSIONS[pattern]: own}), rules()) == expected


def test_a_package_that_no_entry_names_has_its_own_libraries_or_none(tmp_path: Path) -> None:
    lonely = elf_file(needed=["libtorch.so"])
    assert judged(installed(tmp_path, **{f"other/_C.{TAG}": lonely}), rules()) == [
        ("missing-library", "libtorch.so")]
    found = elf_file(needed=["libtorch.so"], runpath="$ORIGIN/../torch/lib")
    assert judged(installed(tmp_path, **{f"other/_C.{TAG}": found}), rules()) == []


def test_what_torch_loads_globally_is_seen_after_torch_only(tmp_path: Path) -> None:
    own = elf_file(undefined=["omp_get_num_threads"])
    for path, expected in ((EXTENSIONS["vllm/*"], []),
                           ("other/_C.abi3.so", [("undefined-symbol", "omp_get_num_threads")])):
        everywhere = {"torch/lib/libtorch_global_deps.so": elf_file(
            soname="libtorch_global_deps.so", defined=["omp_get_num_threads"])}
        wheels = installed(tmp_path, **{path: own}, **everywhere)
        assert judged(wheels, rules()) == expected


@pytest.mark.parametrize(("library", "symbol", "expected"), [
    ("libcuda.so.1", "cuMemCreate", []), ("libnvidia-ml.so.1", "nvmlInit_v2", []),
    ("libcuda.so.1", "cudaMalloc", [("undefined-symbol", "cudaMalloc")]),
    ("libnvidia-ml.so.1", "cuMemCreate", [("undefined-symbol", "cuMemCreate")])])
def test_the_drivers_entries_bring_their_own_symbols_alone(
        tmp_path: Path, library: str, symbol: str, expected: list[tuple[str, str]]) -> None:
    own = elf_file(needed=[library], undefined=[symbol])
    assert judged(installed(tmp_path, **{"other/_C.abi3.so": own}), rules()) == expected
