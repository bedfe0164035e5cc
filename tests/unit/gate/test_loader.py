"""The loader's order, on made files: each rule once where it decides."""

from __future__ import annotations

from builder.binaries.facts import BaseFacts, ElfFacts, WheelFacts
from builder.gate.loader import Loader, Process
from builder.gate.rules import Driver, Global, Rules


def elf(path: str, soname: str = "", *needed: str, **more: object) -> ElfFacts:
    return ElfFacts(path, "aarch64", soname=soname, needed=needed, **more)  # type: ignore[arg-type]


def base(*libraries: ElfFacts) -> BaseFacts:
    return BaseFacts("b", "sha256:b", "linux/arm64", "3.11", "2.36", libraries=libraries)


def loader(*files: ElfFacts, rules: Rules | None = None, driver: bool = True,
           system: BaseFacts | None = None) -> Loader:
    wheel = WheelFacts("w.whl", "0", "w", "1", elves=files)
    return Loader([wheel], system or base(), rules or Rules(), driver=driver)


def found(loader: Loader, path: str, process: Process | None = None) -> list[str]:
    loaded = loader.load(loader.files[path], process or Process())
    return [one.path for one in loaded.scope[1:]]


LIBC = elf("/usr/lib/aarch64-linux-gnu/libc.so.6", "libc.so.6")


def test_the_base_has_what_nobody_else_has() -> None:
    one = loader(elf("a/x.so", "", "libc.so.6"), system=base(LIBC))
    assert found(one, "a/x.so") == [LIBC.path]


def test_runpath_is_the_files_own_and_origin_its_folder() -> None:
    user = elf("a/x.so", "", "liby.so", runpath=("$ORIGIN/../y.libs",))
    one = loader(user, elf("y.libs/liby.so", "liby.so"))
    assert found(one, "a/x.so") == ["y.libs/liby.so"]


def test_a_path_into_another_wheel_is_followed() -> None:
    user = elf("torch/lib/libtorch_cuda.so", "", "libcudart.so.13",
               rpath=("$ORIGIN", "$ORIGIN/../../nvidia/cu13/lib"))
    one = loader(user, elf("nvidia/cu13/lib/libcudart.so.13", "libcudart.so.13"))
    assert found(one, user.path) == ["nvidia/cu13/lib/libcudart.so.13"]


def test_rpath_also_serves_what_the_file_loads_but_runpath_does_not() -> None:
    middle = elf("a/libm.so", "libm.so", "libz.so")
    target = elf("z/libz.so", "libz.so")
    for name, expected in (("rpath", ["a/libm.so", "z/libz.so"]), ("runpath", ["a/libm.so"])):
        user = elf("a/x.so", "", "libm.so", **{name: ("$ORIGIN", "$ORIGIN/../z")})
        assert found(loader(user, middle, target), "a/x.so") == expected


def test_what_is_loaded_already_is_found_by_its_soname() -> None:
    user = elf("vllm/_C.abi3.so", "", "libtorch.so")
    torch = elf("torch/lib/libtorch.so", "libtorch.so")
    one = loader(user, torch)
    assert [missing.library for missing in one.load(user, Process()).missing] == ["libtorch.so"]
    process = one.process(["torch/lib/*"])
    assert found(one, user.path, process) == [torch.path]


def test_an_empty_path_is_a_missing_library_of_the_one_that_asks() -> None:
    user = elf("a/x.so", "", "liby.so", rpath=("$ORIGIN",))
    one = loader(user, elf("a/liby.so", "liby.so", "libgone.so.1"))
    (missing,) = one.load(user, Process()).missing
    assert (missing.file.path, missing.library) == ("a/liby.so", "libgone.so.1")


def test_the_driver_is_the_hosts_where_a_gpu_is_meant() -> None:
    rules = Rules(driver=(Driver(library="libcuda.so.1", symbols="cu*", reason="r"),))
    user = elf("a/x.so", "", "libcuda.so.1")
    assert loader(user, rules=rules).load(user, Process()).driver == {"libcuda.so.1"}
    cpu = loader(user, rules=rules, driver=False).load(user, Process())
    assert [missing.library for missing in cpu.missing] == ["libcuda.so.1"]


def test_python_and_what_is_loaded_globally_are_visible_to_all() -> None:
    python = elf("/usr/bin/python3.11", "", "libc.so.6", interpreter="/lib/ld-linux.so")
    rules = Rules.model_validate({"global": [Global(pattern="t/g.so", reason="r", link="l")]})
    one = loader(elf("t/g.so", "g.so"), system=base(LIBC, python), rules=rules)
    assert [file.path for file in one.process(["t/*"]).visible] == [
        python.path, LIBC.path, "t/g.so"]
    assert [file.path for file in one.process().visible] == [python.path, LIBC.path]


def test_a_circle_ends() -> None:
    one = loader(elf("a/x.so", "x.so", "y.so", rpath=("$ORIGIN",)),
                 elf("a/y.so", "y.so", "x.so", rpath=("$ORIGIN",)))
    assert found(one, "a/x.so") == ["a/y.so"]


def test_two_extensions_of_one_file_name_are_two_files() -> None:
    """Python opens an extension by its path: another _C.abi3.so that is loaded is not it."""
    torch, own = elf("torch/_C.abi3.so"), elf("vllm/_C.abi3.so")
    one = loader(torch, own)
    process = one.process(["torch/_C.*"])
    assert [file.path for file in one.load(own, process.copy()).fresh] == [own.path]
    assert one.load(torch, process.copy()).fresh == ()
