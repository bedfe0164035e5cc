"""``./nox`` on bare machines, with stand-ins for python3 and apt-get."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = """#!/bin/sh
echo "python3 $*" >> "$LOG"
case "$*" in
*version_info*) exit {version};;
*ensurepip*) [ -e "$LOG.venv-package" ] || exit {ensurepip};;
*"-m venv"*) for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python";;
*"pip install"*) printf '#!/bin/sh\\necho "nox $*" >> "%s"\\n' "$LOG" > "${{0%/*}}/nox"
                 chmod +x "${{0%/*}}/nox";;
esac
"""
APT = """#!/bin/sh
echo "apt-get $*" >> "$LOG"
touch "$LOG.venv-package"
"""


class Bare:
    """A machine with nothing but a shell, coreutils and the stand-ins."""

    def __init__(self, folder: Path, *, version: int = 0, ensurepip: int = 0) -> None:
        self.checkout, self.log = folder / "a checkout", folder / "log"
        bin_folder = folder / "bin"
        self.checkout.mkdir()
        bin_folder.mkdir()
        shutil.copy(ROOT / "nox", self.checkout)
        for name, text in {"python3": PYTHON.format(version=version, ensurepip=ensurepip),
                           "apt-get": APT, "sudo": '#!/bin/sh\nexec "$@"\n'}.items():
            (bin_folder / name).write_text(text)
            (bin_folder / name).chmod(0o755)
        self.path = f"{bin_folder}:/usr/bin:/bin"

    def nox(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(self.checkout / "nox"), *words], text=True, cwd="/",
                              env={"PATH": self.path, "LOG": str(self.log)}, check=False,
                              capture_output=True)

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")


def test_it_makes_nox_once_and_hands_its_words_on(tmp_path: Path) -> None:
    bare = Bare(tmp_path)
    assert bare.nox("-s", "tests", "--", "-k", "a b").returncode == 0
    assert bare.said().count("pip install") == 1
    assert bare.said().rstrip().endswith(f"nox --noxfile {bare.checkout}/noxfile.py -s tests -- "
                                         "-k a b")
    assert bare.nox("-l").returncode == 0
    assert bare.said().count("pip install") == 1
    assert "apt-get" not in bare.said()


def test_it_installs_the_venv_module_where_it_is_missing_and_says_so(tmp_path: Path) -> None:
    bare = Bare(tmp_path, ensurepip=1)
    done = bare.nox("-l")
    assert done.returncode == 0
    assert "installing the package python3-venv" in done.stderr
    assert "install -y -qq python3-venv" in bare.said()


def test_an_old_python_is_refused_with_what_is_needed(tmp_path: Path) -> None:
    bare = Bare(tmp_path, version=1)
    done = bare.nox("-l")
    assert done.returncode == 2
    assert "Python 3.11 or newer is needed" in done.stderr
    assert not (bare.checkout / ".venv").exists()


def test_a_cut_off_installation_is_done_again(tmp_path: Path) -> None:
    bare = Bare(tmp_path)
    (bare.checkout / ".venv" / "bin").mkdir(parents=True)
    assert bare.nox("-l").returncode == 0
    assert "-m venv --clear" in bare.said()


@pytest.mark.parametrize("line", ["#!/bin/sh", "set -eu"])
def test_it_needs_no_bash(line: str) -> None:
    assert line in (ROOT / "nox").read_text(encoding="utf-8").splitlines()
