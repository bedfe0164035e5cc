"""Wheels that are damaged, or that want one path between them."""

from __future__ import annotations

import pytest
from gate_facts import a_wheel

from builder.binaries.facts import Damage
from builder.gate.hygiene import check_hygiene
from builder.gate.rules import Rules
from builder.locking.findings import FindingCode, Severity


@pytest.mark.parametrize("code", [
    "unsafe-path", "duplicate-member", "record-differs", "record-absent", "set-id", "zip-bomb",
    "wheel-unreadable", "member-unreadable", "not-a-file"])
def test_damage_stops_a_build(code: str) -> None:
    wheel = a_wheel("bad", damage=(Damage(FindingCode(code), "bad/x.py", "why"),))
    (finding,) = check_hygiene([wheel])
    assert (finding.code, finding.severity, finding.file) == (code, Severity.ERROR, "bad/x.py")
    assert "why" in finding.what


def test_a_wheel_that_cannot_be_opened_is_named_and_to_be_had_again() -> None:
    damage = Damage(FindingCode.WHEEL_UNREADABLE, "", "cut")
    (finding,) = check_hygiene([a_wheel("cut", damage=(damage,))])
    assert finding.what == "cut-1.0-py3-none-any.whl: cut"
    assert "again" in finding.next_step


@pytest.mark.parametrize("code", ["record-unlisted", "elf-damaged", "fatbin-damaged"])
def test_what_installs_all_the_same_is_a_warning(code: str) -> None:
    (finding,) = check_hygiene([a_wheel("odd", damage=(Damage(FindingCode(code), "x", "why"),))])
    assert finding.severity is Severity.WARNING


def test_whole_wheels_are_fine() -> None:
    assert check_hygiene([a_wheel("a", members=("a/x.py",)),
                          a_wheel("b", members=("b/x.py",))]) == ()


def test_one_path_with_different_bytes_names_both_wheels() -> None:
    (finding,) = check_hygiene([a_wheel("a", members=("x.py=1",)),
                                a_wheel("b", members=("x.py=2",))], Rules())
    assert (finding.code, finding.file, finding.severity) == (
        "file-collision", "x.py", Severity.WARNING)
    assert "a-1.0-py3-none-any.whl and b-1.0-py3-none-any.whl" in finding.what


def test_one_path_with_the_same_bytes_is_fine() -> None:
    assert check_hygiene([a_wheel("a", members=("x.py=1",)),
                          a_wheel("b", members=("x.py=1",))], Rules()) == ()


def test_bytecode_goes_with_its_source() -> None:
    pyc = "__pycache__/x.cpython-311.pyc"
    found = check_hygiene([a_wheel("a", members=("x.py=1", f"{pyc}=1")),
                           a_wheel("b", members=("x.py=2", f"{pyc}=2"))], Rules())
    assert [one.file for one in found] == ["x.py"]


def test_a_known_collision_is_a_note_with_its_reason() -> None:
    (finding,) = check_hygiene([a_wheel("a", members=("build_backend.py=1",)),
                                a_wheel("b", members=("build_backend.py=2",))])
    assert finding.severity is Severity.NOTE
    assert "nothing imports it" in finding.what


def test_a_known_fault_of_a_published_wheel_is_a_warning_with_its_reason() -> None:
    damage = Damage(FindingCode.RECORD_DIFFERS, "PyNvVideoCodec/PyNvVideoCodec_130.x.so", "why")
    (finding,) = check_hygiene([a_wheel("pynvvideocodec", damage=(damage,))])
    assert finding.severity is Severity.WARNING
    assert "published like this" in finding.what
    (other,) = check_hygiene([a_wheel("other", damage=(
        Damage(FindingCode.SET_ID, "PyNvVideoCodec/PyNvVideoCodec_130.x.so", "why"),))])
    assert other.severity is Severity.ERROR


@pytest.mark.parametrize(("wheel", "path", "severity"), [
    ("evil", "evil.pth", Severity.WARNING), ("evil", "distutils-precedence.pth", Severity.WARNING),
    ("setuptools", "distutils-precedence.pth", Severity.NOTE)])
def test_code_that_runs_when_python_starts_is_a_warning_but_for_known_wheels(
        wheel: str, path: str, severity: Severity) -> None:
    damage = Damage(FindingCode.PTH_RUNS_CODE, path, "runs this")
    (finding,) = check_hygiene([a_wheel(wheel, damage=(damage,))])
    assert finding.severity is severity
    assert ("_distutils_hack" in finding.what) is (severity is Severity.NOTE)
