"""Whether the run that writes a record is alive, whatever the clock of the machine does meanwhile.

A record names its process by a digest over what only this boot of the machine and this process
have: the kernel's id of the boot, the process number, and its start in ticks since the boot. No
clock that can be set is asked, and a published record names no process and no machine.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

PROC = Path("/proc")
BOOT = "sys/kernel/random/boot_id"
ENDED = ("Z", "X")  # states of a process that is dead and only waits to be forgotten
DIGITS = 32


def this_process(proc: Path = PROC) -> str:
    """Return the name of this process; empty where the system does not tell."""
    return _name(proc / str(os.getpid()), _boot(proc))


def is_running(name: str, proc: Path = PROC) -> bool:
    """Say whether the process of that name is alive; True where the system does not tell.

    A record without a name is of an earlier version or another system: no process here is its.
    """
    boot = _boot(proc)
    return not boot or (bool(name) and any(
        _name(folder, boot) == name for folder in proc.glob("[0-9]*")))


def _boot(proc: Path) -> str:
    try:
        return (proc / BOOT).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _name(folder: Path, boot: str) -> str:
    """Return the name of the process whose folder this is; empty where it has ended."""
    try:
        # The second field is the program in brackets, which may itself hold spaces and brackets.
        fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        state, ticks = fields[0], fields[19]
    except (OSError, IndexError):  # it ended in the meantime
        return ""
    if not boot or state in ENDED:
        return ""
    return hashlib.sha256(f"{boot} {folder.name} {ticks}".encode()).hexdigest()[:DIGITS]
