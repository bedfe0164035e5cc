"""Tests mirror modules: each module of ``builder/`` has the test module of its name and place."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
# What no single module can answer for: the file, and what it tests.
ACROSS = {
    "commands/test_surroundings.py": "faults of the machine around us, through several commands",
    "doctor/test_hosts.py": "real hosts of tests/fixtures/doctor/hosts.toml, read and judged whole",
    "store/test_at_once.py": "several processes at one cache: fetch, layers and prune together",
    "test_borders.py": "the import order, sizes and borders of all packages",
    "test_broken_checkpoints.py": "tests/fixtures/broken_checkpoints.py",
    "test_earliest_stage.py": "what catches each failure of the field at its earliest",
    "test_language.py": "the wording of everything that people read",
    "test_main.py": "builder/__main__.py, which the mirror leaves out",
    "test_messages.py": "tests/messages.py",
    "test_mirror.py": "this mirror",
    "test_nox_script.py": "the script nox of the checkout",
    "test_noxfile.py": "noxfile.py",
    "test_shipped_data.py": "the data files of all packages, each by its name",
    "test_tiny_gemma4.py": "tests/fixtures/tiny-gemma4",
    "test_workflows.py": "the workflows of .github",
}


def under(folder: str, pattern: str) -> set[str]:
    return {path.relative_to(ROOT / folder).as_posix() for path in (ROOT / folder).rglob(pattern)}


def untested(modules: Collection[str], tests: Collection[str]) -> set[str]:
    """Return the modules without a test module."""
    return {name for name in modules
            if PurePosixPath(name).name not in ("__init__.py", "__main__.py")
            and str(PurePosixPath(name).with_name(f"test_{PurePosixPath(name).name}")) not in tests}


def strays(modules: Collection[str], tests: Collection[str]) -> set[str]:
    """Return the test modules whose module is not there."""
    return {name for name in tests if str(PurePosixPath(name).with_name(
        PurePosixPath(name).name.removeprefix("test_"))) not in modules}


def test_every_module_has_its_test_module() -> None:
    assert untested(under("builder", "*.py"), under("tests/unit", "test_*.py")) == set()


def test_every_test_module_has_its_module_or_a_reason() -> None:
    tests = under("tests/unit", "test_*.py")
    assert strays(under("builder", "*.py"), tests) - set(ACROSS) == set()


def test_a_missing_and_a_stray_one_are_seen() -> None:
    modules = {"gate/__init__.py", "gate/abi.py", "gate/new.py", "text.py"}
    tests = {"gate/test_abi.py", "test_text.py", "gate/test_old.py", "test_abi.py"}
    assert untested(modules, tests) == {"gate/new.py"}
    assert strays(modules, tests) == {"gate/test_old.py", "test_abi.py"}
