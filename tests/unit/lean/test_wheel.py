"""One trimmed wheel: what is counted as saved, what is left alone, the same bytes every time."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from lean_files import PAGE, SASS, Code, Library, region
from patch_wheels import locked, make_wheel

from builder.lean.wheel import DEBUG, GPU_CODE, LEAST_SAVED, lean_version, trim_wheel

GPU = "sm_121"
SUITE = b"assert True\n" * (LEAST_SAVED // 12 + 1)
LIBRARY = Library([region(Code(SASS, 80, payload=b"x" * 8 * PAGE), Code(SASS, 120))],
                  debug=b"symbols" * 40_000).build()


def test_savings_are_told_by_rule_and_add_up(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, {"vllm/tests/test_a.py": SUITE, "vllm/_C.abi3.so": LIBRARY})
    target = tmp_path / "target.whl"
    done = trim_wheel(locked(source), source, target, GPU, tmp_path)
    assert done is not None
    revision, savings = done
    assert revision.version == "1.0+lean.sm121"
    assert savings.by_rule["test suites"] == len(SUITE)
    assert savings.by_rule[DEBUG] == 280_000
    assert savings.by_rule[GPU_CODE] > 6 * PAGE  # whole pages go, but for the edges
    assert savings.by_rule.total() == savings.saved
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        assert "vllm/tests/test_a.py" not in archive.namelist()
    assert not list(tmp_path.glob("*.whole"))


def test_too_little_to_save_writes_no_wheel(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, {"vllm/tests/test_a.py": SUITE[:LEAST_SAVED - 1]})
    target = tmp_path / "target.whl"
    assert trim_wheel(locked(source), source, target, GPU, tmp_path) is None
    assert not target.exists()


def test_the_same_wheel_gives_the_same_bytes(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, {"vllm/tests/test_a.py": SUITE, "vllm/_C.abi3.so": LIBRARY})
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        trim_wheel(locked(source), source, tmp_path / f"{name}.whl", GPU, tmp_path / name)
        made.append((tmp_path / f"{name}.whl").read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize(("version", "expected"), [
    ("0.20.2", "0.20.2+lean.sm121"), ("0.6.8.post1", "0.6.8.post1+lean.sm121"),
    ("0.20.2+sy.38909", "0.20.2+sy.38909.lean.sm121"),
])
def test_the_local_version_names_the_gpu(version: str, expected: str) -> None:
    assert lean_version(version, GPU) == expected

