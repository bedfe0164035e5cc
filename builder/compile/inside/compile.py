"""Unpack, patch, configure, compile, install: the one step of the build, from ``order.json``.

It ends with status 0 whether or not the compile did: what happened is in ``/out/result.json``, and
the whole log beside it, which a failed build step could not hand out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from . import cmake_toolchain, driver_stub, ninja, stub_torch

ORDER, OUT, SRC, BUILD = Path("/order"), Path("/out"), Path("/src"), Path("/build")
LOG = OUT / "log.txt"
CACHE, MEASURES, STUBS = Path("/ccache"), Path("/measures"), Path("/stubs")
SHARED = Path("/run/secrets/ccache-remote")
TORCH, TOOLS = Path("/opt/torch/torch"), Path("/opt/tools")
LAUNCHER = ["/usr/bin/python3", str(Path(__file__).with_name("measure.py")), "ccache"]
RENAMED = {"/src/": "", "/build/": "", "/opt/torch/": "", "/opt/cuda/": ""}


class FailedStep(Exception):  # noqa: N818 - a step of the build, whose log says why
    """A step failed; ``step`` names it, ``facts`` are what is known of it."""

    def __init__(self, step: str, facts: dict[str, Any] | None = None) -> None:
        """Remember the step."""
        super().__init__(step)
        self.step, self.facts = step, facts or {}


def main() -> int:
    """Do everything and write ``result.json``."""
    order = json.loads((ORDER / "order.json").read_text())
    started = time.monotonic()
    OUT.mkdir(parents=True, exist_ok=True)
    MEASURES.mkdir()
    result: dict[str, Any] = {"status": "failed", "step": ""}
    try:
        _environment(order)
        source = _sources(order)
        result |= _build(order, source)
        result["status"] = "complete"
    except FailedStep as failed:
        result |= failed.facts | {"step": failed.step}
    usage = _usage()
    result |= usage | {"seconds": round(time.monotonic() - started, 1)}
    (OUT / "result.json").write_text(json.dumps(result, indent=1, sort_keys=True))
    ninja.say(f"@end {result['status']}")
    return 0


def _environment(order: dict[str, Any]) -> None:
    prefix = "aarch64-linux-gnu-" if order["cross"] else ""
    os.environ |= {
        "CC": f"/usr/bin/{prefix}gcc-12", "CXX": f"/usr/bin/{prefix}g++-12",
        "PATH": f"{TOOLS}/bin:{TOOLS}/cmake/bin:/opt/cuda/bin:/usr/bin:/bin",
        "PYTHONPATH": f"{STUBS}:{TOOLS}/python:{ORDER}", "SPARKYARD_MEASURES": str(MEASURES),
        "CCACHE_DIR": str(CACHE), "CCACHE_COMPILERCHECK": "content", "CCACHE_UMASK": "000",
        "CCACHE_MAXSIZE": f"{order['cache_gb']}G", "SOURCE_DATE_EPOCH": "315532800",
        "CCACHE_STATSLOG": str(_stats()), "CCACHE_NOHASHDIR": "1", "LC_ALL": "C.UTF-8",
        "CUDA_HOME": "/opt/cuda", "CUDA_TOOLKIT_ROOT": "/opt/cuda",
        "OUTPUT": str(OUT / "files"), "TARGETS": " ".join(order["targets"]),
        "FACTS": str(MEASURES / "facts"), "LAUNCHER": " ".join(LAUNCHER), **order["environment"],
        **({"CCACHE_RECACHE": "1"} if order["fresh"] else {}),
        **({"CCACHE_REMOTE_STORAGE": SHARED.read_text().strip()} if SHARED.exists() else {})}
    if TORCH.is_dir():
        stub_torch.write(TORCH, STUBS)
    header = Path("/opt/cuda/targets/sbsa-linux/include/cuda.h")
    if header.exists():
        lib = header.parents[1] / "lib"
        (lib / "stubs").mkdir(exist_ok=True)
        driver_stub.write(header, lib / "stubs", os.environ["CC"])


def _sources(order: dict[str, Any]) -> Path:
    """Unpack the sources and the external ones, then lay the patched files over them."""
    source = _unpack(ORDER / order["source"], SRC / order["package"], "")
    for name, external in order["external"].items():
        place = _unpack(ORDER / external["archive"], SRC / name, external["path"])
        for variable, below in external["variables"].items():
            folder = place / below if below else place
            order["definitions"].setdefault(variable, str(folder))
            os.environ.setdefault(variable, str(folder))
    for path, kept in order["changes"].items():
        target = source / path
        target.unlink(missing_ok=True)
        if kept:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ORDER / kept, target)
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source).as_posix()
        if path.is_file() and any(fnmatchcase(name, glob) for glob in order["exclude"]):
            path.write_text("")
    return source


def _unpack(archive: Path, place: Path, below: str) -> Path:
    """Unpack an archive's one top folder, or a folder below it, as ``place``."""
    place.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        for member in tar:
            inner = member.name.split("/", 1)[1] if "/" in member.name else ""
            if below:
                if not inner.startswith(f"{below}/"):
                    continue
                inner = inner[len(below) + 1:]
            if inner and member.isreg():
                target = place / inner
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(tar.extractfile(member).read())  # type: ignore[union-attr]
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
    return place


def _build(order: dict[str, Any], source: Path) -> dict[str, Any]:
    if order["system"] == "command":
        return _commanded(order, source)
    _configure(order, source)
    goals = _goals(order)
    _stats().unlink(missing_ok=True)  # CMake's own tests of the compilers are no objects
    facts = ninja.make(order, BUILD, goals, LOG)
    if facts["attempts"][-1]["status"] != 0:
        raise FailedStep("compile", facts)
    if not order["only"]:
        _install(order)
    else:
        _keep_objects(goals)
        facts["sources"] = _compiled_sources(order, source)
    return {**facts, **_versions(order)}


def _commanded(order: dict[str, Any], source: Path) -> dict[str, Any]:
    """Run the recipe's command; one that drives ninja leaves its facts in ``$FACTS``."""
    facts = Path(os.environ["FACTS"])

    def left() -> dict[str, Any]:
        return json.loads(facts.read_text()) if facts.exists() else {"attempts": []}
    try:
        _logged("command", order["command"], source)
    except FailedStep as failed:
        raise FailedStep(failed.step, left()) from None
    return {**left(), **_versions(order)}


def _configure(order: dict[str, Any], source: Path) -> None:
    include = None
    if order["undefine"]:
        include = SRC / "undefine.h"
        include.write_text("".join(f"#undef {name}\n" for name in order["undefine"]))
    file = SRC / "toolchain.cmake"
    file.write_text(cmake_toolchain.text(cross=order["cross"], renamed=RENAMED,
                                         launcher=LAUNCHER, include=include))
    definitions = [f"-D{key}={value}" for key, value in order["definitions"].items()]
    _logged("configure", ["cmake", "-G", "Ninja", "-S", str(source), "-B", str(BUILD),
                          f"-DCMAKE_TOOLCHAIN_FILE={file}", "-DCMAKE_BUILD_TYPE=Release",
                          *definitions], source)


def _goals(order: dict[str, Any]) -> list[str]:
    """Return what ninja is asked for: targets, or only the objects whose source fits a glob."""
    if not order["only"]:
        return list(order["targets"])
    found = [name for name in _objects(order)
             if any(fnmatchcase(name, f"*{glob}.o") for glob in order["only"])]
    if not found:
        raise FailedStep("no such source")
    return found


def _objects(order: dict[str, Any]) -> list[str]:
    """Return all objects of the targets."""
    listed = subprocess.run(["ninja", "-C", str(BUILD), "-t", "targets", "all"], check=True,
                            capture_output=True, text=True).stdout
    return [name for name in re.findall(r"^(\S+\.o): ", listed, re.MULTILINE)
            if any(f"/{target}.dir/" in name for target in order["targets"])]


def _compiled_sources(order: dict[str, Any], source: Path) -> list[dict[str, Any]]:
    """Return the sources of all objects, each with the kernels that it instantiates by name."""
    found = []
    for name in _objects(order):
        inner = name.split(".dir/", 1)[1].removesuffix(".o")
        path = source / inner
        text = path.read_text(errors="replace") if path.is_file() else ""
        found.append({"source": inner, "kernels": text.count("template __global__")})
    return found


def _install(order: dict[str, Any]) -> None:
    for target in order["targets"]:
        _logged("install", ["cmake", "--install", str(BUILD), "--prefix", str(OUT / "files"),
                            "--component", target, "--strip"], BUILD)


def _keep_objects(goals: list[str]) -> None:
    for name in goals:
        place = OUT / "objects" / name.replace("/", "_")
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(BUILD / name, place)


def _logged(step: str, words: list[str], cwd: Path) -> None:
    """Run a step; its words go to the log, and its notes of progress on to whoever follows."""
    ninja.say(f"@step {step}")
    with subprocess.Popen(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace") as child, \
            LOG.open("a", buffering=1) as log:
        for line in child.stdout or ():
            if line.startswith("@"):
                ninja.say(line.rstrip())
            else:
                log.write(line)
        status = child.wait()
    if status != 0:
        raise FailedStep(step)


def _stats() -> Path:
    """Return where ccache notes what became of each object of this run, and of no other one."""
    return MEASURES / "ccache.log"


def _usage() -> dict[str, Any]:
    notes = _stats().read_text(errors="replace").splitlines() if _stats().exists() else []

    def count(*names: str) -> int:
        return sum(line.strip() in names for line in notes)
    return {"objects": ninja.measures(), "machine": os.uname().machine,
            "cache_hits": count("direct_cache_hit", "preprocessed_cache_hit"),
            "cache_misses": count("cache_miss"),
            "shared_errors": count("remote_storage_error", "remote_storage_timeout"),
            "cache_bytes": _cache_bytes()}


def _cache_bytes() -> int:
    stats = subprocess.run(["ccache", "--print-stats"], check=False, capture_output=True,
                           text=True).stdout if shutil.which("ccache") else ""
    counts = dict(line.split("\t", 1) for line in stats.splitlines() if "\t" in line)
    return int(counts.get("cache_size_kibibyte", "0")) * 1024


def _versions(order: dict[str, Any]) -> dict[str, Any]:
    prefix = "aarch64-linux-gnu-" if order["cross"] else ""
    asked = {"g++": [f"{prefix}g++-12", "-dumpfullversion"], "cmake": ["cmake", "--version"],
             "ninja": ["ninja", "--version"], "nvcc": ["nvcc", "--version"]}
    versions = {}
    for name, words in asked.items():
        try:
            answer = subprocess.run(words, check=False, capture_output=True, text=True).stdout
        except FileNotFoundError:
            continue
        found = re.findall(r"V?(\d+\.\d+(?:\.\d+)*)", answer)
        if found:
            versions[name] = found[-1]
    return {"compilers": versions}


if __name__ == "__main__":
    sys.exit(main())
