"""Run a command where one folder can be written and nothing else: ``FOLDER BYTES COMMAND…``.

Started by ``unshare --mount``. The kernel holds it: every mount becomes read-only, the folder alone
stays writable, and the command gets at most so many bytes of address space.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys

MOUNT_SETATTR = 442  # the same number on every processor
AT_FDCWD, AT_RECURSIVE, RDONLY = -100, 0x8000, 1


class MountAttr(ctypes.Structure):
    """What ``mount_setattr`` takes: flags to set and to clear, propagation, a user name space."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns"))


def change(path: str, attr: MountAttr, flags: int) -> None:
    """Change a mount, or end the program."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, ctypes.byref(attr),
                    ctypes.sizeof(attr)):
        sys.exit(f"mount_setattr {path}: {os.strerror(ctypes.get_errno())}")


def main() -> None:
    """Close everything but the folder, then become the command."""
    folder, limit, *command = sys.argv[1:]
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    change("/", MountAttr(set=RDONLY), AT_RECURSIVE)
    change(folder, MountAttr(clear=RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_AS, (int(limit), int(limit)))
    os.execvp(command[0], command)


main()
