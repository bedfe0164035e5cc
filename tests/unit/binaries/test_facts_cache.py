"""Facts of wheels in the cache: whole, or made again."""

from __future__ import annotations

from pathlib import Path

import pytest
from elf_files import elf_file, fatbin, make_wheel

from builder.binaries import facts_cache
from builder.binaries.facts import Form
from builder.binaries.wheel_facts import read_wheel, read_wheels
from builder.files import sha256_file

FIXTURES = Path(__file__).parents[2] / "fixtures" / "gate"
LIBRARY = elf_file(needed=["libc.so.6"], defined=["here"], undefined=["there@libc.so.6:GLIBC_2.17"],
                   weak=["here"], sections={".nv_fatbin": fatbin((2, 120, 0x100000), (1, 80, 0)),
                                            "__nv_relfatbin": fatbin((2, 90, 0))})
MEMBERS = {"thing/__init__.py": b"x = 1\n", "thing/_C.so": LIBRARY,
           "thing/k.cubin": (FIXTURES / "cuda13-sm_120f.cubin").read_bytes()}


def test_facts_come_back_from_the_cache_as_they_went(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, {**MEMBERS, "thing/cut.so": LIBRARY[:300],
                                 "thing/plain.so": elf_file(defined=["a", "b@V_1", "c"])})
    facts = read_wheel(path, sha256_file(path))
    assert facts_cache.decode(facts_cache.encode(facts)) == facts
    assert facts.cubins[0][1].form is Form.SASS


@pytest.mark.parametrize("harm", [
    lambda data: b"", lambda data: data[:-1], lambda data: data[:80] + b"x" + data[81:]])
def test_a_damaged_cache_is_made_again(tmp_path: Path, harm: object) -> None:
    path = make_wheel(tmp_path, MEMBERS)
    wheels = [(path, sha256_file(path))]
    first = read_wheels(wheels, tmp_path / "cache")
    kept, = (tmp_path / "cache" / "facts" / facts_cache.reader()).iterdir()
    whole = kept.read_bytes()
    assert callable(harm)
    kept.write_bytes(harm(whole))
    assert facts_cache.load(tmp_path / "cache", wheels[0][1], path.name) is None
    assert read_wheels(wheels, tmp_path / "cache") == first
    assert kept.read_bytes() == whole
