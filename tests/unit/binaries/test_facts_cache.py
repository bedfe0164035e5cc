"""Facts of wheels in the cache: whole, or made again."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path

import pytest
from elf_files import elf_file, fatbin, make_wheel
from own_modules import ROOT, reached_from

from builder.binaries import facts_cache
from builder.binaries.facts import Form
from builder.binaries.wheel_facts import read_wheel, read_wheels
from builder.files import sha256_file

FIXTURES = Path(__file__).parents[2] / "fixtures" / "gate"
LIBRARY = elf_file(needed=["libc.so.6"], defined=["here"], undefined=["there@libc.so.6:GLIBC_2.17"],
                   weak=["here"], sections={".nv_fatbin": fatbin((2, 120, 0x100000), (1, 80, 0)),
                                            "__nv_relfatbin": fatbin((2, 90, 0))})
MEMBERS = {"thing/__init__.py": b"x = 1\n", "thing/_C.so": LIBRARY,
           "triton/backends/nvidia/bin/ptxas": b"sm_120a sm_121a ",
           "thing/stub.so": elf_file(sections={
               ".nv_fatbin": (FIXTURES / "refuses.fatbin").read_bytes()}),
           "thing/k.cubin": (FIXTURES / "cuda13-sm_120f.cubin").read_bytes()}


def test_facts_come_back_from_the_cache_as_they_went(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, {**MEMBERS, "thing/cut.so": LIBRARY[:300],
                                 "thing/plain.so": elf_file(defined=["a", "b@V_1", "c"])})
    facts = read_wheel(path, sha256_file(path))
    assert facts_cache.decode(facts_cache.encode(facts)) == facts
    assert facts.cubins[0][1].form is Form.SASS
    assert facts.targets
    assert [elf for elf in facts.elves if elf.stubs and elf.regions]


def test_facts_of_before_stubs_and_compilers_are_still_read(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, {"thing/_C.so": LIBRARY})
    facts = read_wheel(path, sha256_file(path))
    text, *names = facts_cache.encode(facts, packed=False).split(b"\0")
    plain = json.loads(text)
    del plain["targets"]
    for elf in plain["elves"]:
        del elf["regions"], elf["stubs"]
    old = facts_cache.decode(b"\0".join((json.dumps(plain).encode(), *names)), packed=False)
    assert [elf.cuda for elf in old.elves] == [elf.cuda for elf in facts.elves]


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


def test_facts_are_keyed_by_every_module_that_makes_them() -> None:
    readers = reached_from("binaries/wheel_facts.py", "binaries/image_facts.py")
    covered = {path.relative_to(ROOT / "builder").as_posix() for path in facts_cache.sources()}
    # Modules of no package are tools: they name, write and show things, but for tarball.
    assert {name for name in readers - covered if "/" in name} == {"locking/findings.py"}
    assert "tarball.py" in covered
    assert {path.name for path in (ROOT / "builder" / "binaries").glob("*.py")} <= {
        Path(name).name for name in covered}


def test_a_changed_reader_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = facts_cache.reader.__wrapped__()
    extra = tmp_path / "another.py"
    extra.write_text("")
    sources = [*facts_cache.sources(), extra]
    monkeypatch.setattr(facts_cache, "sources", lambda: sources)
    assert facts_cache.reader.__wrapped__() == before  # an empty file adds nothing
    extra.write_text("x")
    assert facts_cache.reader.__wrapped__() != before


def test_an_edited_entry_is_not_believed_whatever_its_digest(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, MEMBERS)
    read_wheels([(path, sha256_file(path))], tmp_path / "cache")
    kept, = (tmp_path / "cache" / "facts" / facts_cache.reader()).iterdir()
    texts = (b"{}", b'{"elves": 1}', b"[]", bytes(1 << 20))
    for body in (b"{}", *map(zlib.compress, texts)):
        kept.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        assert facts_cache.load(tmp_path / "cache", kept.name, path.name) is None
        assert not kept.exists()


@pytest.mark.parametrize(("limit", "value"), [("MAX_BYTES", 99), ("MAX_JSON", 9), ("MAX_NAMES", 1)])
def test_an_entry_that_would_fill_the_memory_is_not_read(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    path = make_wheel(tmp_path, MEMBERS)
    packed = facts_cache.encode(read_wheel(path, sha256_file(path)))
    monkeypatch.setattr(facts_cache, limit, value)
    with pytest.raises(ValueError, match=r"unpacks to more|holds far more"):
        facts_cache.decode(packed)
