"""Files that a user writes, edits or names, damaged: the commands that read them end in our words.

Each damaged file stands in a checkout of its own, and a whole command reads it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from damaged_bytes import FUZZ, damaged, regrown, reworded, run_quietly, within_time
from elf_files import elf_file, fatbin, make_wheel
from gate_facts import a_base
from hypothesis import given
from hypothesis import strategies as st
from lean_files import PTX, SASS, Code, Library, region
from report_records import full_record

from builder.bases.facts import pack, unpack
from builder.binaries import facts_cache
from builder.binaries.wheel_facts import read_wheel
from builder.cache_folder import claim
from builder.config_file import read_toml
from builder.diagnosis.catalogue import FOLDER, read_catalogue
from builder.diagnosis.log_file import read_log
from builder.diagnosis.matching import diagnose
from builder.errors import PatchError, SparkyardError
from builder.lean.library import trim_library
from builder.patches.apply import Blob, apply_files
from builder.patches.diff import parse_diff
from builder.patches.filepatch import reverse
from builder.registry.credentials import find_login

ROOT = Path(__file__).parents[2]
LOGS = sorted((ROOT / "tests" / "fixtures" / "known_issues").glob("*"))
DIFF = b"""diff --git a/x/a.py b/x/a.py
index 1234567..89abcde 100644
--- a/x/a.py
+++ b/x/a.py
@@ -1,3 +1,3 @@ def f():
 one
-two
+2
 three
diff --git a/x/b.py b/x/c.py
similarity index 90%
rename from x/b.py
rename to x/c.py
--- a/x/b.py
+++ b/x/c.py
@@ -1 +1,2 @@
 b
+c
\\ No newline at end of file
diff --git "a/x/\\303\\244.py" "b/x/\\303\\244.py"
new file mode 100755
index 0000000..89abcde
--- /dev/null
+++ "b/x/\\303\\244.py"
@@ -0,0 +1 @@
+new
"""
FOREIGN = """recipe_version: "2"
name: a
model: google/gemma-4-26B-A4B-it
runtime: vllm
container: vllm/vllm-openai:v0.20.2
defaults: {port: 8000, host: 0.0.0.0, tensor_parallel: 1, gpu_memory_utilization: 0.7}
env: {A: "1"}
command: |
  vllm serve {model} --port {port} --host {host} -tp {tensor_parallel} \\
    --gpu-memory-utilization {gpu_memory_utilization} --enable-auto-tool-choice
metadata: {description: x}
"""


@dataclass(frozen=True)
class Checkout:
    """A copy of the checkout, with a cache."""

    root: Path

    def run(self, *words: str) -> None:
        run_quietly("--matrix", str(self.root / "matrix.toml"), *words)

    def write(self, name: str, data: str | bytes) -> Path:
        path = self.root / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
        return path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkout]:
    shutil.copy(ROOT / "matrix.toml", tmp_path)
    for name in ("locks", "images", "recipes", "wheels"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.setenv("SPARKYARD_CACHE", str(claim(tmp_path / "cache")))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before = listing(tmp_path)
    yield Checkout(tmp_path)
    assert listing(tmp_path) - before <= {"foreign.yaml", "record.json", "log", "config.json"}


def listing(root: Path) -> set[str]:
    """Return what lies in a checkout, but for its cache."""
    return {path.relative_to(root).as_posix() for path in root.rglob("*")
            if "cache" not in path.relative_to(root).parts}


def text_of(*names: str) -> list[str]:
    return [(ROOT / name).read_text(encoding="utf-8") for name in names]


@FUZZ
@given(text=reworded(text_of("matrix.toml")))
def test_matrix(checkout: Checkout, text: str) -> None:
    checkout.write("matrix.toml", text)
    checkout.run("plan", "--json")


@FUZZ
@given(text=reworded(text_of("recipes/tiny-gemma4.toml", "recipes/gemma4-26b-a4b-fp8.toml")),
       form=st.sampled_from(("docker", "compose", "systemd", "sparkrun", "eugr", "kubernetes")))
def test_recipe(checkout: Checkout, text: str, form: str) -> None:
    checkout.write("recipes/tiny-gemma4.toml", text)
    checkout.run("recipe", "show", "tiny-gemma4")
    checkout.run("recipe", "show", "tiny-gemma4", "--format", form)


@FUZZ
@given(text=reworded(text_of("locks/cpu.toml")))
def test_lock(checkout: Checkout, text: str) -> None:
    path = checkout.write("locks/cpu.toml", text)
    sums = (ROOT / "locks" / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    checkout.write("locks/SHA256SUMS", "\n".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  cpu.toml" if line.endswith(" cpu.toml")
        else line for line in sums) + "\n")  # as where both are forged
    checkout.run("lock", "--check", "cpu")


@FUZZ
@given(text=reworded([text_of("locks/bases.toml")[0][:4000]]))
def test_base_lock(checkout: Checkout, text: str) -> None:
    checkout.write("locks/bases.toml", text)
    checkout.run("plan", "cpu", "--json")
    checkout.run("base", "--check")


@FUZZ
@given(damaged([pack(a_base())]))
def test_base_facts(data: bytes) -> None:
    with within_time(), suppress(ValueError):
        unpack(data)


@FUZZ
@given(text=reworded(text_of("images/base/slim.toml")))
def test_base_recipe(checkout: Checkout, text: str) -> None:
    checkout.write("images/base/slim.toml", text)
    checkout.run("plan", "cpu", "--json")


@FUZZ
@given(data=regrown([full_record().document()]))
def test_record(checkout: Checkout, data: bytes) -> None:
    checkout.run("report", str(checkout.write("record.json", data)), "--format", "html")


@FUZZ
@given(text=reworded([path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.toml"))]))
def test_catalogue(checkout: Checkout, text: str) -> None:
    path = checkout.write("log", text)
    with within_time(), suppress(SparkyardError):
        diagnose(["ERROR x", "INFO y"], read_catalogue([path]))
    with suppress(SparkyardError):
        read_toml(path, what="catalogue", next_step="")


@FUZZ
@given(text=reworded([path.read_text("utf-8", "replace") for path in LOGS if path.is_file()]))
def test_log(checkout: Checkout, text: str) -> None:
    path = checkout.write("log", text)
    checkout.run("diagnose", str(path))
    with suppress(SparkyardError):
        read_log(str(path))


@FUZZ
@given(text=reworded([FOREIGN]))
def test_foreign_recipe(checkout: Checkout, text: str) -> None:
    checkout.run("recipe", "import", str(checkout.write("foreign.yaml", text)))


@FUZZ
@given(data=regrown([{"auths": {"r.example": {"auth": "dTpw"}}, "credsStore": "x",
                      "credHelpers": {"r.example": "y"}}]))
def test_docker_configuration(checkout: Checkout, data: bytes) -> None:
    checkout.write("config.json", data)
    with within_time():
        find_login(("r.example",))


class Tree:
    """A few files that the diff is for."""

    files: ClassVar = {"x/a.py": b"one\ntwo\nthree\n", "x/b.py": b"b\n"}

    def read(self, path: str) -> Blob | None:
        return Blob(self.files[path], False) if path in self.files else None

    def is_folder(self, path: str) -> bool:
        return path == "x"


@FUZZ
@given(st.one_of(damaged([DIFF]), reworded([DIFF.decode()]).map(
    lambda text: text.encode("utf-8", "surrogatepass"))))
def test_diffs(data: bytes) -> None:
    with within_time(), suppress(PatchError):
        files = parse_diff(data)
        apply_files(files, Tree())
        apply_files(reverse(files), Tree())


@FUZZ
@given(data=st.data())
def test_facts_of_wheels(tmp_path: Path, data: st.DataObject) -> None:
    library = elf_file(needed=["libc.so.6"], defined=["here"], undefined=["there@libc.so.6:G_2"],
                       sections={".nv_fatbin": fatbin((2, 120, 0x100000), (1, 80, 0))})
    facts = read_wheel(make_wheel(tmp_path, {"a/_C.so": library}), "0" * 64)
    whole = facts_cache.encode(facts, packed=False)
    body = data.draw(st.one_of(damaged([whole]), reworded([whole.decode()]).map(
        lambda text: text.encode("utf-8", "surrogatepass"))))
    with within_time(), suppress(ValueError, LookupError, TypeError, AttributeError,
                                 RecursionError):
        facts_cache.decode(body, packed=False)


@FUZZ
@given(data=damaged([Library([region(Code(SASS, 80, payload=b"x" * 9000), Code(SASS, 120)),
                              region(Code(PTX, 80), Code(SASS, 90))]).build()]))
def test_libraries_to_be_trimmed(tmp_path: Path, data: bytes) -> None:
    source, target = tmp_path / "whole.so", tmp_path / "trimmed.so"
    source.write_bytes(data)
    with within_time():
        result = trim_library(source, target, "sm_121")
    assert result.after <= result.before == len(data)
    target.unlink(missing_ok=True)
