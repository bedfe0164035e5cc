"""Libraries and symbols: each check fires, each neighbour stays quiet; the real loader agrees."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from builder.binaries.elf import read_elf
from builder.binaries.facts import BaseFacts, ElfFacts, Symbol, WheelFacts
from builder.gate.abi import MAX_MANGLED, Target, check_abi, demangle
from builder.gate.rules import After, Driver, Excused, Operators, Owner, Rules
from builder.locking.findings import Finding, Severity

TARGET = Target("3.11", "aarch64", cuda=True)
PYTHON = ElfFacts("/usr/bin/python3.11", "aarch64", interpreter="/lib/ld.so",
                  defined=(Symbol("PyErr_SetString"),))
LIBC = ElfFacts("/usr/lib/aarch64-linux-gnu/libc.so.6", "aarch64", soname="libc.so.6",
                defined=(Symbol("printf", "GLIBC_2.17"),),
                defined_versions=("GLIBC_2.17", "GLIBC_2.34"))
BASE = BaseFacts("b", "sha256:b", "linux/arm64", "3.11", "2.36", libraries=(LIBC, PYTHON))
RULES = Rules(
    after=(After(pattern="vllm/*", loaded=("torch/_C.*",), reason="r", link="l"),),
    driver=(Driver(library="libcuda.so.1", symbols="cu[A-Z]*", reason="r"),),
    owner=(Owner(wheel="torch", libraries=("libtorch*.so",), namespaces=("at", "c10"), reason="r",
                 link="l"),),
    extension=(Excused(pattern="opt/*", reason="it is optional", link="l"),),
    debian={"libnuma.so.1": "libnuma1"})
GETTER = "_ZN2at4cuda24getCurrentCUDABlasHandleEv"
TORCH = (ElfFacts("torch/_C.cpython-311-aarch64-linux-gnu.so", "aarch64", needed=("libtorch.so",),
                  rpath=("$ORIGIN/lib",), undefined=(Symbol("PyErr_SetString"),)),
         ElfFacts("torch/lib/libtorch.so", "aarch64", soname="libtorch.so", needed=("libc.so.6",),
                  defined=(Symbol(GETTER),), undefined=(Symbol("printf", "GLIBC_2.17"),),
                  needed_versions=(("libc.so.6", ("GLIBC_2.17",)),)))


def replace_rules(**changes: object) -> Rules:
    return RULES.model_copy(update=changes)


def extension(path: str = "vllm/_C.abi3.so", *names: str, **more: object) -> ElfFacts:
    defaults = {"needed": ("libtorch.so",), "undefined": tuple(Symbol(name) for name in names)}
    return ElfFacts(path, "aarch64", **{**defaults, **more})  # type: ignore[arg-type]


def wheels(*files: ElfFacts, name: str = "vllm") -> list[WheelFacts]:
    return [WheelFacts("torch-1.whl", "0", "torch", "1", elves=TORCH),
            WheelFacts(f"{name}-1.whl", "1", name, "1", elves=files)]


def check(*files: ElfFacts, name: str = "vllm", base: BaseFacts = BASE,
          target: Target = TARGET) -> list[Finding]:
    return list(check_abi(wheels(*files, name=name), base, target, RULES))


def codes(found: list[Finding]) -> list[tuple[str, str]]:
    return [(one.code.value, one.severity.value) for one in found]


def test_a_closure_that_works_is_quiet() -> None:
    assert check(extension("vllm/_C.abi3.so", GETTER, "PyErr_SetString")) == []


def test_an_undefined_symbol_names_the_extension_and_the_symbol_as_people_write_it() -> None:
    (found,) = check(extension("vllm/_C.abi3.so", "_ZN3c1013MessageLoggerC1EPKciib", GETTER))
    assert codes([found]) == [("undefined-symbol", "error")]
    assert "c10::MessageLogger::MessageLogger(char const*, int, int, bool)" in found.what
    assert "getCurrentCUDABlasHandle" not in found.what
    assert found.file == "vllm/_C.abi3.so"


def test_a_sibling_of_torch_needs_its_libraries() -> None:
    found = check(extension("torchaudio/lib/_torchaudio.abi3.so", needed=("libtorch_cuda.so",)),
                  name="torchaudio")
    assert codes(found) == [("missing-library", "error")]


def test_a_weak_symbol_may_be_missing() -> None:
    assert check(extension(undefined=(Symbol("nobody", weak=True),))) == []


def test_a_missing_library_names_the_debian_package() -> None:
    (found,) = check(extension(needed=("libtorch.so", "libnuma.so.1")))
    assert codes([found]) == [("missing-library", "error")]
    assert "libnuma1" in found.next_step


def test_a_library_is_not_missing_when_the_base_has_it() -> None:
    numa = ElfFacts("/usr/lib/aarch64-linux-gnu/libnuma.so.1.0.0", "aarch64",
                    soname="libnuma.so.1")
    base = BaseFacts("b", "", "linux/arm64", "3.11", "2.36", libraries=(LIBC, PYTHON, numa))
    assert check(extension(needed=("libtorch.so", "libnuma.so.1")), base=base) == []


def test_one_missing_library_of_many_extensions_is_said_once() -> None:
    files = [extension(f"vllm/_{name}.abi3.so", needed=("libtorch.so",)) for name in "abc"]
    broken = WheelFacts("torch-1.whl", "0", "torch", "1", elves=(
        TORCH[0], ElfFacts("torch/lib/libtorch.so", "aarch64", soname="libtorch.so",
                           needed=("libgone.so",))))
    found = check_abi([broken, *wheels(*files)[1:]], BASE, TARGET, RULES)
    assert [one.expected for one in found] == ["libgone.so"]
    assert found[0].affected == (TORCH[0].path, "vllm/_a.abi3.so", "vllm/_b.abi3.so",
                                 "vllm/_c.abi3.so")


def test_the_drivers_symbols_come_from_the_host() -> None:
    driven = extension(needed=("libtorch.so", "libcuda.so.1"),
                       undefined=(Symbol("cuMemAlloc_v2"),))
    assert check(driven) == []
    (found,) = check(extension(undefined=(Symbol("cuMemAlloc_v2"),)))
    assert found.code == "undefined-symbol"  # it does not ask for the driver


def test_symbol_versions_must_not_exceed_the_base() -> None:
    def asking(version: str) -> ElfFacts:
        return extension(needed=("libtorch.so", "libc.so.6"),
                         needed_versions=(("libc.so.6", (version,)),))
    assert check(asking("GLIBC_2.34")) == []
    (found,) = check(asking("GLIBC_2.38"))
    assert (found.code, found.expected) == ("symbol-version", "GLIBC_2.38")


def test_an_extension_for_another_python_or_processor_is_a_note() -> None:
    dead = extension("deep/_C.cpython-312-aarch64-linux-gnu.so", needed=("libgone.so",))
    foreign = ElfFacts("x/_C.abi3.so", "x86_64", needed=("libgone.so",))
    assert codes(check(dead, foreign)) == [("wrong-extension", "note")] * 2
    live = extension("deep/_C.cpython-311-aarch64-linux-gnu.so")
    assert check(ElfFacts(live.path, "aarch64")) == []


def test_an_excused_extension_is_a_note_with_its_reason() -> None:
    (found,) = check(extension("opt/_C.abi3.so", needed=("libtbb.so.12",)))
    assert found.severity is Severity.NOTE
    assert "it is optional" in found.what


def test_a_library_that_torch_loads_is_excused_only_beside_the_torch_of_its_rule() -> None:
    path = "torchvision/_C.so"
    file = extension(path, needed=("libtorch_cuda.so",))
    rules = replace_rules(operators=(Operators(pattern=path, reason="r", link="l"),), extension=(
        Excused(pattern=path, torch="*+cpu", reason="torchvision says so itself", link="l"),))
    given = wheels(file, name="torchvision")
    assert check_abi(given, BASE, TARGET, RULES) == ()
    (found,) = check_abi(given, BASE, TARGET, rules)
    assert (found.severity, found.file) == (Severity.ERROR, path)
    on_cpu = [replace(given[0], version="1+cpu"), given[1]]
    (found,) = check_abi(on_cpu, BASE, TARGET, rules)
    assert found.severity is Severity.NOTE
    assert "torchvision says so itself" in found.what


PARTS = Target("3.11", "aarch64", cuda=True, whole=False)


def test_parts_of_a_closure_are_not_asked_for_what_absent_wheels_may_bring() -> None:
    lonely = extension("vllm/_C.abi3.so", GETTER, "ncclCommMemStats")
    alone = WheelFacts("vllm-1.whl", "1", "vllm", "1", elves=(lonely,))
    assert codes(list(check_abi([alone], BASE, TARGET, RULES))) == [
        ("missing-library", "error")]
    assert check_abi([alone], BASE, PARTS, RULES) == ()


def test_parts_of_a_closure_lack_what_the_given_wheel_would_bring() -> None:
    fits = extension("vllm/_A.abi3.so", GETTER, "ncclCommMemStats")
    older = extension("vllm/_B.abi3.so", "_ZNK3c105Error4whatEv", "ncclCommMemStats")
    plain = extension("vllm/_C.abi3.so", needed=("libtorch_cuda.so", "libcudart.so.13"))
    found = check(fits, older, plain, target=PARTS)
    assert [(one.file, one.code) for one in found] == [
        ("vllm/_C.abi3.so", "missing-library"), ("vllm/_B.abi3.so", "undefined-symbol")]
    assert found[0].expected == "libtorch_cuda.so"
    assert "c10::Error::what() const" in found[1].what
    assert "nccl" not in found[1].what


def test_parts_of_a_closure_are_held_against_the_base() -> None:
    numa = extension("vllm/_A.abi3.so", needed=("libtorch.so", "libnuma.so.1"))
    young = extension("vllm/_B.abi3.so", needed_versions=(("libc.so.6", ("GLIBC_2.38",)),))
    found = check(numa, young, target=PARTS)
    assert [one.code for one in found] == ["missing-library", "symbol-version"]
    assert "libnuma1" in found[0].next_step


NO_BASE = Target("3.11", "aarch64", cuda=True, has_base=False)


def test_without_a_base_only_what_a_given_wheel_owns_is_judged() -> None:
    fits = extension("vllm/_A.abi3.so", GETTER, "printf")
    older = extension("vllm/_B.abi3.so", "_ZNK3c105Error4whatEv", "printf")
    numa = extension("vllm/_C.abi3.so", needed=("libtorch.so", "libnuma.so.1"))
    young = extension("vllm/_D.abi3.so", needed_versions=(("libc.so.6", ("GLIBC_2.99",)),))
    cpu = extension("vllm/_E.abi3.so", needed=("libtorch_cuda.so",))
    found = check_abi(wheels(fits, older, numa, young, cpu), None, NO_BASE, RULES)
    assert [(one.file, one.code.value) for one in found] == [
        ("vllm/_E.abi3.so", "missing-library"), ("vllm/_B.abi3.so", "undefined-symbol")]
    assert "which no given wheel has" in found[0].what


def test_what_a_library_lacks_names_every_extension_that_it_affects() -> None:
    files = [extension(f"vllm/_{name}.abi3.so", needed=("libmiddle.so",), rpath=("$ORIGIN",))
             for name in "ab"]
    middle = extension("vllm/libmiddle.so", "_ZN2at4goneEv", soname="libmiddle.so")
    (found,) = check(*files, middle)
    assert (found.file, found.affected) == (
        "vllm/libmiddle.so", ("vllm/_a.abi3.so", "vllm/_b.abi3.so"))
    assert "vllm/_a.abi3.so and 1 more cannot be imported" in found.what


def test_a_name_is_shown_as_people_write_it_but_never_expanded_without_limit() -> None:
    """Each round doubles what the name stands for: 300 characters would fill 60 GB."""
    references = ["S0_", "S1_", "S3_", "S5_", "S7_", "S9_", "SB_", "SD_", "SF_", "SH_", "SJ_",
                  "SL_", "SN_", "SP_", "SR_", "ST_", "SV_", "SX_", "SZ_"]
    bomb = "_Z1fPFviiE" + "".join(f"PFv{one}{one}E" for one in references)
    assert demangle(bomb) == bomb
    assert len(demangle("_Z1f" + "i" * 5000)) == MAX_MANGLED
    assert demangle(GETTER) == "at::cuda::getCurrentCUDABlasHandle()"
    assert demangle("printf") == "printf"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's loader is asked")
@pytest.mark.parametrize(("body", "libraries", "loads"), [
    ("int here(void) { return 1; }", (), True),
    ("int gone(void); int here(void) { return gone(); }", (), False),
    ("int other(void); int here(void) { return other(); }", ("other",), True),
    ("int gone(void) __attribute__((weak)); int here(void) { return gone ? gone() : 0; }", (),
     True),
])
def test_the_real_loader_agrees(tmp_path: Path, body: str, libraries: tuple[str, ...], *,
                                loads: bool) -> None:
    """Real libraries by the host's compiler, loaded by its loader and judged by the gate."""
    compiler = shutil.which("gcc")
    assert compiler, "the base's own toolchain is a part of what is tested"
    files = []
    for name, text in (("other", "int other(void) { return 2; }"), ("m", body)):
        source, target = tmp_path / f"{name}.c", tmp_path / (
            "libother.so" if name == "other" else "m.abi3.so")
        source.write_text(text)
        links = [f"-l{library}" for library in libraries] if name == "m" else []
        subprocess.run([compiler, "-shared", "-fPIC", "-Wl,-rpath,$ORIGIN", f"-L{tmp_path}",
                        "-nostdlib", "-o", target, source, *links], check=True)
        files.append(read_elf(target.read_bytes(), target.name))
    try:
        ctypes.CDLL(str(tmp_path / "m.abi3.so"), mode=2)  # RTLD_NOW
        loaded = True
    except OSError:
        loaded = False
    wheel = WheelFacts("w.whl", "0", "w", "1", elves=tuple(files))
    base = BaseFacts("b", "", "linux/amd64", "3.11", "2.36")
    found = check_abi([wheel], base, Target("3.11", files[0].machine, cuda=False), RULES)
    assert loaded is loads
    assert (not found) is loads
