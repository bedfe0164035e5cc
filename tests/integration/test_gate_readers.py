"""The gate's readers beside NVIDIA's ``cuobjdump``, on the wheels that the committed locks name.

``cuobjdump`` comes out of the locked triton wheel. CUDA 13's names the variant ``a`` of machine
code and both variants of PTX; that of CUDA 12 names none.
"""

from __future__ import annotations

import platform
import re
import subprocess
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from builder.binaries.facts import Code, Form, WheelFacts
from builder.binaries.wheel_facts import read_wheels
from builder.fetch.wheels import fetch_lock
from builder.locking.lock import Lock, read_lock
from builder.store.content_store import Store
from builder.workspace import cache_folder

LOCKS = Path(__file__).parents[2] / "locks"
# Together: SASS and PTX, plain, arch-exact and family code, compressed and not, both sections.
READ = ("vllm", "torchvision", "nvidia-nvshmem-cu13", "flashinfer-cubin")
DUMPED_CUBINS = 40
LISTED = re.compile(r"\.sm_(\d+[af]?)\.(?:cubin|ptx)$", re.MULTILINE)


def fetched(lock: Lock, *names: str) -> dict[str, tuple[Path, str]]:
    """Return path and digest of some of a lock's wheels, by name."""
    wheels = tuple(wheel for name in names if (wheel := lock.wheel(name)))
    assert len(wheels) == len(names)
    paths = fetch_lock(lock.model_copy(update={"wheels": wheels}), Store(cache_folder()), {}).paths
    return {wheel.name: (path, wheel.sha256) for wheel, path in paths.items()}


@pytest.fixture(scope="module")
def wheels() -> dict[str, tuple[Path, str]]:
    return fetched(read_lock(LOCKS / "tf5.toml"), *READ)


@pytest.fixture(scope="module")
def facts(wheels: dict[str, tuple[Path, str]], tmp_path_factory: pytest.TempPathFactory
          ) -> dict[str, WheelFacts]:
    """Read the wheels anew, whatever the user's own cache knows of them."""
    read = read_wheels([wheels[name] for name in READ], tmp_path_factory.mktemp("cache"))
    return dict(zip(READ, read, strict=True))


class Cuobjdump:
    """NVIDIA's own reader; ``names_variants`` as CUDA 13's does."""

    def __init__(self, folder: Path) -> None:
        native = platform.machine() in ("aarch64", "arm64")
        lock = read_lock(LOCKS / ("tf5.toml" if native else "cpu.toml"))
        wheel, _ = fetched(lock, "triton")["triton"]
        with zipfile.ZipFile(wheel) as opened:
            self._program = Path(opened.extract("triton/backends/nvidia/bin/cuobjdump", folder))
        self._program.chmod(0o755)
        version = self._said("--version").partition("release ")[2]
        self.names_variants = int(version.split(".")[0]) >= 13

    def _said(self, *arguments: str | Path) -> str:
        return subprocess.run([self._program, *arguments], capture_output=True, text=True,
                              check=False).stdout

    def listed(self, file: Path, *options: str) -> Counter[str]:
        """Count the entries of a file by their names, ``sm_90a`` or ``compute_75``."""
        return Counter(f"{form}_{name}" for form, option in
                       (("sm", "--list-elf"), ("compute", "--list-ptx"))
                       for name in LISTED.findall(self._said(option, *options, file)))

    def would_list(self, code: Iterable[Code]) -> Counter[str]:
        """Count our entries by the names that cuobjdump would give them."""
        counts: Counter[str] = Counter()
        for one in code:
            silent = "f" if self.names_variants and one.form is Form.SASS else "af"
            counts[one.name if self.names_variants and one.form is Form.PTX
                   else one.name.rstrip(silent)] += one.count
        return counts


@pytest.fixture(scope="module")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> Cuobjdump:
    return Cuobjdump(tmp_path_factory.mktemp("cuobjdump"))


@pytest.mark.parametrize("name", READ)
def test_published_wheels_are_whole(name: str, facts: dict[str, WheelFacts]) -> None:
    assert facts[name].damage == ()
    assert facts[name].name == name
    assert all(elf.machine == "aarch64" for elf in facts[name].elves)


@pytest.mark.parametrize("name", READ[:3])
def test_the_same_code_as_cuobjdump_lists(name: str, facts: dict[str, WheelFacts],
                                          wheels: dict[str, tuple[Path, str]],
                                          cuobjdump: Cuobjdump, tmp_path: Path) -> None:
    with_code = [elf for elf in facts[name].elves if elf.cuda or elf.cuda_to_link]
    assert with_code
    with zipfile.ZipFile(wheels[name][0]) as opened:
        for elf in with_code:
            file = Path(opened.extract(elf.path, tmp_path))
            assert cuobjdump.would_list(elf.cuda) == cuobjdump.listed(file), elf.path
            whole = cuobjdump.would_list((*elf.cuda, *elf.cuda_to_link))
            assert whole == cuobjdump.listed(file, "-all"), elf.path
            file.unlink()


def test_the_chosen_wheels_have_every_kind_of_code(facts: dict[str, WheelFacts]) -> None:
    code = [one for fact in facts.values() for elf in fact.elves for one in elf.cuda]
    kinds = {(one.form, one.variant) for one in code}
    assert kinds >= {(Form.SASS, ""), (Form.SASS, "a"), (Form.SASS, "f"), (Form.PTX, "")}
    assert any(elf.cuda_to_link for elf in facts["nvidia-nvshmem-cu13"].elves)


def test_ten_thousand_cubins_are_what_their_names_say(facts: dict[str, WheelFacts]) -> None:
    cubins = facts["flashinfer-cubin"].cubins
    assert len(cubins) > 10_000
    named = [(match[1], code) for path, code in cubins
             if (match := re.search(r"[sS]m_?(\d+[af]?)(?![0-9a-z])", Path(path).name))]
    wrong = [(name, code.name) for name, code in named
             if code.name not in (f"sm_{name}", f"sm_{name}a", f"sm_{name}f")]
    assert len(named) > 9_000
    assert wrong == []


def test_cubins_as_cuobjdump_names_them(facts: dict[str, WheelFacts],
                                        wheels: dict[str, tuple[Path, str]],
                                        cuobjdump: Cuobjdump, tmp_path: Path) -> None:
    cubins = facts["flashinfer-cubin"].cubins
    with zipfile.ZipFile(wheels["flashinfer-cubin"][0]) as opened:
        for path, code in cubins[::len(cubins) // DUMPED_CUBINS]:
            file = Path(opened.extract(path, tmp_path))
            assert cuobjdump.would_list([code]) == cuobjdump.listed(file), path


def test_a_wheel_cut_short_after_its_download(wheels: dict[str, tuple[Path, str]],
                                              tmp_path: Path) -> None:
    path, digest = wheels["torchvision"]
    cut = tmp_path / path.name
    cut.write_bytes(path.read_bytes()[:100_000])
    (found,) = read_wheels([(cut, digest)], tmp_path / "cache")
    assert [one.code for one in found.damage] == ["wheel-unreadable"]
