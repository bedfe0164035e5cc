"""Whether a wheel needs no newer C library than its own tag promises.

``manylinux_2_28`` promises that glibc 2.28 is enough. An installer believes it; the loader refuses
the file. Where the base is new enough, nothing fails there, but the tag is still wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from builder.binaries.facts import ElfFacts, WheelFacts
from builder.locking.findings import Finding, FindingCode, Severity

_VERSION = re.compile(r"GLIBC_(\d{1,4})\.(\d{1,4})(?:\.\d+)?$")
_PROMISED = re.compile(r"manylinux_(\d{1,4})_(\d{1,4})_\w+$")
_OLDER = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
LOADED = ("dyn", "exec")  # kinds of ELF files; others are for a linker or a debugger


def check_glibc(wheels: Sequence[WheelFacts]) -> tuple[Finding, ...]:
    """Return the wheels with a file that needs a newer glibc than every one of their tags."""
    return tuple(finding for wheel in wheels if (finding := _mislabelled(wheel)))


def _mislabelled(wheel: WheelFacts) -> Finding | None:
    promised = promised_glibc(wheel.file)
    needed = max(((needed_glibc(elf), elf.path) for elf in wheel.elves if elf.kind in LOADED),
                 default=((0, 0), ""))
    if promised is None or needed[0] <= promised:
        return None
    wanted, tag = (".".join(map(str, version)) for version in (needed[0], promised))
    return Finding(
        FindingCode.WRONG_GLIBC_TAG,
        f"{wheel.file} promises glibc {tag}, but {needed[1]} needs {wanted}: an installer takes it "
        "for systems where it cannot load",
        f"keep to bases with glibc {wanted} or newer, and report it to the wheel's publisher",
        Severity.WARNING, wheel.file, needed[1], expected=f"glibc {tag} or older",
        found=f"glibc {wanted}")


def promised_glibc(file: str) -> tuple[int, int] | None:
    """Return the newest glibc among a wheel's tags; None where a tag promises none."""
    try:
        platforms = {tag.platform for tag in parse_wheel_filename(file)[3]}
    except InvalidWheelFilename:
        return None
    versions = []
    for platform in platforms:
        if match := _PROMISED.match(platform):
            versions.append((int(match[1]), int(match[2])))
        elif older := _OLDER.get(platform.partition("_")[0]):
            versions.append(older)
    return max(versions, default=None)


def needed_glibc(elf: ElfFacts) -> tuple[int, int]:
    """Return the newest version of glibc's symbols that a file asks for."""
    return max(((int(match[1]), int(match[2])) for _, versions in elf.needed_versions
                for version in versions if (match := _VERSION.match(version))), default=(0, 0))
