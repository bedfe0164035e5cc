"""The first real error of a log: by kind, with its remedy, and silent about what is none."""

from __future__ import annotations

import pytest

from builder.compile.failures import first_error, remedies

COMMAND = "/usr/bin/ccache /opt/cuda/bin/nvcc " + "-I/src/vllm/csrc " * 30
ECHO = ["ninja: build stopped: subcommand failed.\n"]


def log(*error: str, before: int = 0) -> list[str]:
    lines = [f"@[{n}/99 1.0] Building CUDA object x{n}.cu.o\n" for n in range(before)]
    lines += ["csrc/a.cu(3): warning #177-D: variable was declared but never referenced\n"]
    return [*lines, "FAILED: x.dir/b.cu.o \n", COMMAND + "\n",
            *(f"{line}\n" for line in error), *ECHO]


@pytest.mark.parametrize(("line", "kind", "named"), [
    ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", "memory", "memory was full"),
    ("g++: fatal error: Killed signal terminated program cc1plus", "memory", "memory was full"),
    ("/src/a.cu:5:10: fatal error: cutlass/cutlass.h: No such file or directory",
     "missing header", "cutlass/cutlass.h"),
    ('a.cu(5): catastrophic error: cannot open source file "cublas_v2.h"', "missing header",
     "cublas_v2.h"),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_121'", "unsupported architecture",
     "compute_121"),
    ("ptxas fatal   : Unsupported .version 9.1; current version is '9.0'", "version mix", "9.1"),
    ("ptxas fatal   : Instruction 'mma with block scale' not supported on .target 'sm_120'",
     "ptxas", "block scale"),
    ("/usr/bin/aarch64-linux-gnu-ld: cannot find -lcudart: No such file or directory",
     "missing library", "cudart"),
    ("b.cu.o: undefined reference to `cutlass_scaled_mm_sm75(torch::Tensor&)'",
     "undefined reference", "cutlass_scaled_mm_sm75(torch::Tensor&)"),
    ("x86_64-linux-gnu-ld: skipping incompatible libc10.so when searching", "wrong processor",
     "libc10.so"),
    ("csrc/b.cu(17): error: identifier \"foo\" is undefined", "compiler", "foo"),
    ("csrc/b.cpp:17:3: error: 'foo' was not declared", "compiler", "foo"),
    ("cc1plus: fatal error: error writing to /tmp/x: No space left on device", "disk", "full"),
])
def test_each_kind_is_named_with_its_remedy(line: str, kind: str, named: str) -> None:
    found = first_error(log(line))
    assert found is not None
    assert (found.kind, found.target) == (kind, "x.dir/b.cu.o")
    assert named in found.what
    assert found.step


def test_the_first_error_of_forty_thousand_lines() -> None:
    lines = log("csrc/b.cu(17): error: first", "csrc/b.cu(18): error: second", before=40_000)
    lines += log("nvcc error   : 'ptxas' died due to signal 9 (Kill signal)")
    found = first_error(lines)
    assert found is not None
    assert "first" in found.what
    assert found.line == 40_004


def test_a_container_that_was_short_of_memory() -> None:
    """As a container of 300 MB really printed it, with two jobs and then with one."""
    attempt = ["ninja: Entering directory `/build'\n"]
    killed = ["FAILED: [code=137] x.dir/b.cu.o \n", COMMAND + "\n", "Killed\n", *ECHO]
    found = first_error([*attempt, *killed, *attempt, *killed])
    assert found is not None
    assert (found.kind, found.target, found.line) == ("memory", "x.dir/b.cu.o", 9)
    other = first_error([*attempt, *killed, *attempt, *log("b.cu(1): error: no")])
    assert other is not None
    assert other.kind == "compiler"


def test_what_no_entry_names_is_shown_as_it_is() -> None:
    found = first_error(log("internal: the frobnicator broke"))
    assert found is not None
    assert (found.kind, found.what) == ("unknown", "internal: the frobnicator broke")


def test_an_error_before_ninja_is_found() -> None:
    found = first_error(["-- Build type: Release\n", "CMake Error at CMakeLists.txt:91 (find):\n",
                         "  Could not find Torch\n"])
    assert found is not None
    assert found.kind == "cmake"
    assert "CMakeLists.txt:91" in found.what


def test_a_good_log_has_no_error() -> None:
    assert first_error(["-- Failed to find nvToolsExt\n", "a.cu: warning: error: is a word\n",
                        "@[1/1 1.0] Linking CXX shared module x.so\n"]) is None


def test_every_entry_has_a_name_of_its_own() -> None:
    names = [each.name for each in remedies()]
    assert len(names) == len(set(names))
