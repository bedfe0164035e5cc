"""Every extension is loaded, each in a process of its own, beside stubs of the driver."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builder.record.check import Check, Status
from builder.smoke import levels

SUFFIX = "cpython-311-x86_64-linux-gnu.so"
NEEDS_DRIVER = ("int cuInit(int); int nvmlInit_v2(void); int cuFileOpen(void);"
                "int f(void) { return cuInit(0) + nvmlInit_v2() + cuFileOpen(); }")


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """Return a copy of the scripts as in a container, with an empty torch."""
    folder = tmp_path / "scripts"
    shutil.copytree(Path(levels.__file__).parent / "inside", folder)
    (folder / "torch.py").write_text("")
    task(folder)
    return folder


def task(scripts: Path, *rules: dict[str, str]) -> None:
    (scripts / "spec.json").write_text(json.dumps({"cuda": "13.0", "extensions": rules}))


def compiled(path: Path, source: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".c").write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", path, path.with_suffix(".c")],
                   check=True)
    return path


def python(scripts: Path, code: str, *words: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", f"import sys; from pathlib import Path; import extensions; {code}",
         *words], cwd=scripts, capture_output=True, text=True, check=True).stdout


def loaded(scripts: Path, site: Path) -> list[Check]:
    """Run the check of all extensions in ``site``; return what it reports."""
    out = python(scripts, "from results import check\nwith check('all') as detail: "
                 "detail.append(extensions.load_all(Path(sys.argv[1])))", site)
    return [check for line in out.splitlines() if (check := levels.parse(line))]


def test_only_extensions_are_loaded_and_counted(scripts: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    compiled(site / f"good.{SUFFIX}", "int mine(void) { return 1; }")
    compiled(site / "pkg" / "stable.abi3.so", "int other(void) { return 1; }")
    (site / "libplain.so").write_text("a library that nothing imports")
    (check,) = loaded(scripts, site)
    assert (check.status, check.detail) == (Status.PASS, "2 load")


def test_one_with_an_open_symbol_fails_by_name_and_the_others_are_still_loaded(
        scripts: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    compiled(site / f"bad.{SUFFIX}", "int nowhere(void); int f(void) { return nowhere(); }")
    compiled(site / f"good.{SUFFIX}", "int mine(void) { return 1; }")
    one, every = loaded(scripts, site)
    assert (one.check, one.status) == (f"extension bad.{SUFFIX}", Status.FAIL)
    assert "undefined symbol: nowhere" in one.detail
    assert every.status is Status.FAIL
    assert every.detail.startswith(f"1 of 2: bad.{SUFFIX}: ")


def test_a_crash_is_an_answer_with_its_status(scripts: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    compiled(site / f"dies.{SUFFIX}", "#include <stdlib.h>\n"
             "__attribute__((constructor)) void die(void) { abort(); }")
    assert "the loader's process ended with status" in loaded(scripts, site)[0].detail


def test_a_rule_excuses_by_pattern_and_gives_its_reason(scripts: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    compiled(site / f"bad.{SUFFIX}", "int nowhere(void); int f(void) { return nowhere(); }")
    task(scripts, {"pattern": "bad.*", "reason": "needs a fabric"})
    one, every = loaded(scripts, site)
    assert one.status is Status.NOT_APPLICABLE
    assert one.detail.startswith("needs a fabric (")
    assert (every.status, every.detail) == (Status.PASS, "0 load, 1 never used here")


def test_stubs_define_what_the_drivers_libraries_would(scripts: Path, tmp_path: Path) -> None:
    site, stubs = tmp_path / "site", tmp_path / "stubs"
    compiled(site / f"kernels.{SUFFIX}", NEEDS_DRIVER)
    made = python(scripts, "extensions.STUBS = Path(sys.argv[2]); "
                  "print(extensions.make_stubs(Path(sys.argv[1])))", site, stubs)
    assert made.strip() == "2", "cuFile's functions are a library's, not the driver's"
    names = {path.name: defined(path) for path in stubs.glob("*.so.1")}
    assert "cuInit" in names["libcuda.so.1"]
    assert "cuFileOpen" not in names["libcuda.so.1"]
    assert "nvmlInit_v2" in names["libnvidia-ml.so.1"]


def defined(path: Path) -> str:
    words: list[Any] = ["nm", "-D", "--defined-only", path]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
