"""The exit-code table of the README, and errors that say what, where and what next."""

from __future__ import annotations

import pytest

from builder import errors
from builder.errors import ConfigError, IntegrityError, Problem, SparkyardError

TABLE = {
    "VerdictError": 1, "UsageError": 2, "ConfigError": 2, "HostError": 2, "LockError": 3,
    "NetworkError": 4, "IntegrityError": 4, "EngineError": 5, "DiskError": 5, "PatchError": 6,
    "InternalError": 7,
}


def test_each_kind_has_the_exit_code_that_is_documented() -> None:
    kinds = {name: kind.exit_code for name, kind in vars(errors).items()
             if isinstance(kind, type) and issubclass(kind, SparkyardError)
             and kind is not SparkyardError}
    assert kinds == TABLE
    assert errors.INTERRUPTED_EXIT_CODE == 130


@pytest.mark.parametrize("name", sorted(TABLE))
def test_each_kind_has_a_name_of_its_own_in_reports(name: str) -> None:
    kinds = [getattr(errors, other).kind for other in TABLE]
    assert kinds.count(getattr(errors, name).kind) == 1


def test_an_error_reads_as_one_line_with_its_parts() -> None:
    error = SparkyardError("no lock", where="locks/tf5.toml", next_step="run lock")
    assert str(error) == "no lock; at locks/tf5.toml; run lock"
    assert str(SparkyardError("alone")) == "alone"


def test_a_config_error_counts_and_shows_every_problem() -> None:
    error = ConfigError("matrix.toml", [Problem("a.b", "bad", "good"), Problem("c", "worse")])
    assert str(error).splitlines() == ["2 errors in matrix.toml", "a.b: bad (good)", "c: worse"]
    assert str(ConfigError("f", [Problem("a", "b")])).startswith("1 error in f")


def test_wrong_bytes_show_both_digests_aligned() -> None:
    lines = str(IntegrityError("a.whl", expected="aa", actual="bb").what).splitlines()
    assert lines[1:] == ["  expected aa", "  actual   bb"]
