"""A small package with two C extensions: published wheel, sources, and a compiler that is gcc.

The extensions are really compiled and can be imported: ``spam._answer`` returns a number from
``csrc/answer.c``, ``spam._other`` one from ``csrc/other.c``; both include ``csrc/shared.h``.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import platform
import sysconfig
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cells_for_tests import make_cell
from patch_wheels import locked, make_wheel

from builder.locking.base_lock import LockedBase
from builder.locking.lock import LockedWheel
from builder.matrix.cells import Cell
from builder.process import run
from builder.wheels.order import Order, Provenance, Rebuilt, RebuiltFile
from builder.wheels.recipe import Recipe

CODE = """#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include "shared.h"
static PyObject *value(PyObject *self, PyObject *ignored) {
    return PyLong_FromLong(NUMBER + ADDED);
}
static PyMethodDef methods[] = {{"value", value, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "NAME", "", -1, methods};
PyMODINIT_FUNC PyInit_NAME(void) { return PyModule_Create(&module); }
"""
HEADER = "#define ADDED 0\n"
BASE = LockedBase.model_construct(name="slim", platform="linux/amd64", python="3.11",
                                  image_id="sha256:" + "e" * 64)
FLAGS = ("-O1", "-fPIC", "-shared")


def code(name: str, number: int) -> str:
    """Return the source of one extension."""
    return CODE.replace("NAME", name).replace("NUMBER", str(number))


SOURCES = {"csrc/answer.c": code("_answer", 41), "csrc/other.c": code("_other", 7),
           "csrc/shared.h": HEADER, "spam/__init__.py": ""}


def make_sources(folder: Path, files: Mapping[str, str] = SOURCES) -> Path:
    """Write a source archive with one top folder."""
    path = folder / "spam-1.0.tar.gz"
    with gzip.GzipFile(path, "wb", mtime=0) as stream, \
            tarfile.open(fileobj=stream, mode="w") as archive:
        for name, text in files.items():
            item = tarfile.TarInfo(f"spam-1.0/{name}")
            item.size = len(text)
            archive.addfile(item, io.BytesIO(text.encode()))
    return path


def make_recipe(sources: Path, **changed: Any) -> Recipe:
    """Return the recipe of the package."""
    cost = {"cpu_seconds": 1.0, "memory_gb": 0.1, "objects": 1, "where": "here"}
    targets = {name: {"files": [f"spam/{name}.abi3.so"], "sources": [f"csrc/{source}.c",
                                                                     "csrc/*.h"], "cost": cost}
               for name, source in (("_answer", "answer"), ("_other", "other"))}
    return Recipe.model_validate({
        "schema": 1, "package": "spam", "tag": "host", "targets": targets, **changed,
        "sources": {"1.0": {"file": sources.name, "size": sources.stat().st_size,
                            "sha256": hashlib.sha256(sources.read_bytes()).hexdigest()}},
        "build": {"system": "command", "command": ["gcc", *FLAGS]}})


def make_published(folder: Path) -> Path:
    """Return the published wheel, with both extensions compiled from the published sources."""
    folder.mkdir(exist_ok=True)
    files: dict[str, bytes] = {"spam/__init__.py": b""}
    for name in ("_answer", "_other"):
        made = compile_one(SOURCES, name, folder / f"{name}.so")
        files[f"spam/{name}.abi3.so"] = made.read_bytes()
    return make_wheel(folder, files, "spam")


def compile_one(files: Mapping[str, str], name: str, target: Path) -> Path:
    """Compile one extension with gcc; return where it lies."""
    sources = target.parent / f"{target.name}.d"
    for path, text in files.items():
        (sources / path).parent.mkdir(parents=True, exist_ok=True)
        (sources / path).write_text(text)
    run(["gcc", *FLAGS, f"-I{sysconfig.get_path('include')}", f"-I{sources}/csrc",
         f"-ffile-prefix-map={sources}=.", "-o", target, f"{sources}/csrc/{name.strip('_')}.c"])
    return target


class Gcc:
    """A real compiler behind the border: it unpacks, applies the changes and runs gcc."""

    def __init__(self) -> None:
        """Nothing was compiled yet."""
        self.compiled: list[str] = []
        self.fresh: list[bool] = []

    def fingerprint(self, recipe: Recipe, cell: Cell) -> str:
        """Return the version of gcc."""
        return run(["gcc", "-dumpfullversion"]).stdout.strip()

    def compile(self, order: Order, output: Path) -> Rebuilt:
        """Compile each target."""
        start = time.monotonic()
        self.fresh.append(order.fresh)
        with tarfile.open(order.source) as archive:
            texts = {member.name.partition("/")[2]: stream.read().decode()
                     for member in archive if (stream := archive.extractfile(member))}
        texts.update({path: blob.data.decode() for path, blob in order.changes.items() if blob})
        files = []
        for name in order.targets:
            target = order.recipe.targets[name]
            path = output / target.files[0]
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = output.parent / f"{output.name}-{name}"
            compile_one(texts, name, scratch.with_suffix(".so")).replace(path)
            files.append(RebuiltFile(path=target.files[0], size=path.stat().st_size, target=name,
                                     sha256=hashlib.sha256(path.read_bytes()).hexdigest()))
            self.compiled.append(name)
        return Rebuilt(key=order.key, files=tuple(files), provenance=Provenance(
            mode="native", machine=platform.machine(), objects=len(files),
            compilers={"gcc": self.fingerprint(order.recipe, order.cell)},
            seconds=time.monotonic() - start))


def make_order(folder: Path, targets: tuple[str, ...] = ("_answer",), **changed: Any) -> Order:
    """Return an order for some targets of the package."""
    sources = make_sources(folder)
    published = make_published(folder / "published")
    wheel: LockedWheel = locked(published)
    return Order(**{"key": "ab" * 32, "cell": make_cell(), "recipe": make_recipe(sources),
                    "version": "1.0", "targets": targets, "source": sources, "base": BASE,
                    "published": (wheel, published), **changed})
