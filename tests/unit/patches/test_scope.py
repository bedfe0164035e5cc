"""Which files of a diff count for a wheel, and under which paths."""

from __future__ import annotations

import pytest

from builder.patches.filepatch import Change, FilePatch
from builder.patches.scope import is_excluded, native_scope, scope_of, whole_scope

PACKAGES = frozenset({"vllm", "transformers"})


def files(*paths: str) -> list[FilePatch]:
    return [FilePatch(Change.MODIFY, path, path) for path in paths]


def test_files_are_sorted_into_patched_compiled_and_left_out() -> None:
    scope = scope_of(files("vllm/a.py", "csrc/a.cu", "tests/t.py", "requirements/x.txt"), PACKAGES)
    assert [file.new for file in scope.files] == ["vllm/a.py"]
    assert scope.compiled == ("csrc/a.cu",)
    assert scope.left_out == ("tests/t.py", "requirements/x.txt")


def test_a_source_folder_is_left_off() -> None:
    scope = scope_of(files("src/transformers/a.py"), PACKAGES)
    assert [file.new for file in scope.files] == ["transformers/a.py"]


def test_a_rename_out_of_the_package_is_kept_and_not_forgotten() -> None:
    scope = scope_of([FilePatch(Change.RENAME, "vllm/a.py", "tools/a.py")], PACKAGES)
    assert [file.new for file in scope.files] == ["tools/a.py"]


def test_a_rename_counts_with_both_its_paths() -> None:
    scope = scope_of([FilePatch(Change.RENAME, "tests/a.py", "vllm/a.py")], PACKAGES)
    assert len(scope.files) == 1


@pytest.mark.parametrize(("path", "include", "exclude", "excluded"), [
    ("vllm/a.py", (), (), False), ("tests/a.py", (), (), True), (".github/x.yml", (), (), True),
    ("tests/a.py", ("tests/*",), (), False), ("vllm/a.py", ("tests/*",), (), True),
    ("vllm/a.py", (), ("vllm/*",), True), ("vllm/a.py", ("vllm/*",), ("vllm/*",), True)])
def test_exclude_wins_and_include_replaces_the_default(
        path: str, include: tuple[str, ...], exclude: tuple[str, ...], excluded: bool) -> None:
    assert is_excluded(path, include, exclude) is excluded


def test_a_checkout_takes_what_is_compiled_too() -> None:
    scope = whole_scope(files("csrc/a.cu", "docs/x.md"))
    assert [file.new for file in scope.files] == ["csrc/a.cu"]
    assert (scope.compiled, scope.left_out) == ((), ("docs/x.md",))


def test_the_native_part_is_what_is_compiled() -> None:
    diff = files("csrc/a.cu", "vllm/b.py", "tests/c.cu")
    scope = native_scope(diff)
    assert [file.new for file in scope.files] == ["csrc/a.cu"]
    assert scope.left_out == ("vllm/b.py", "tests/c.cu")
    assert native_scope(diff, exclude=("csrc/*",)).files == ()
