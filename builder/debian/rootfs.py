"""Exact Debian packages into a root file system: unpacked natively, configured in a chroot.

mmdebstrap and debootstrap run the target's own dpkg under emulation, unpacking included: over
eight minutes for arm64 on two cores. Here this machine's dpkg does the work and only maintainer
scripts are emulated. One thing more is done from outside: the certificate bundle, for which
Debian's script starts a thousand small programs.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from builder import process
from builder.debian.certificates import install_bundle
from builder.errors import EngineError, UsageError
from builder.process import CommandError

CERTIFICATE_SCRIPT = "usr/sbin/update-ca-certificates"
FORCED = ("dpkg", "--force-depends", "--force-architecture", "--force-unsafe-io",
          "--force-confold")


def environment(epoch: int) -> dict[str, str]:
    """Return what makes maintainer scripts say and write the same every time."""
    return {"DEBIAN_FRONTEND": "noninteractive", "DEBCONF_NONINTERACTIVE_SEEN": "true",
            "LC_ALL": "C", "TZ": "UTC", "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}


@contextmanager
def root_folder(cache: Path, arch: str) -> Iterator[Path]:
    """Yield an empty folder for the root file system, owned by this process alone.

    What a killed run left there is swept first; it is removed at the end. Raises UsageError for
    a user who is not root: owners and device files need that.
    """
    if os.geteuid() != 0:
        raise UsageError("a root file system can only be made by root", where="sparkyard base",
                         next_step="sudo -E sparkyard base, or pull the base from your registry")
    place = cache / "rootfs"
    place.mkdir(parents=True, exist_ok=True)
    with (place / f".{arch}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = place / arch
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o755)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def install(root: Path, debs: Sequence[Path], arch: str, epoch: int) -> None:
    """Fill ``root`` with the packages, configured. Raises EngineError where a script fails."""
    env = environment(epoch)
    _skeleton(root, arch)
    for deb in debs:
        _extract(deb, root)
    _check_runs(root, arch)
    try:
        process.run([*FORCED, f"--root={root}", "--unpack", *debs], env=env)
        with _stubbed(root / CERTIFICATE_SCRIPT):
            process.run([*FORCED, f"--root={root}", "--configure", "--pending"], env=env)
    except CommandError as error:
        raise EngineError(f"a package of the base cannot be installed: {error.what}",
                          where=f"base for {arch}",
                          next_step="see which above; for arm64, `nox -s engine`") from error
    _all_installed(root)
    install_bundle(root)


def _skeleton(root: Path, arch: str) -> None:
    """Make what must be there before the first package: merged /usr, dpkg's files, /dev/null."""
    names = ["bin", "sbin", "lib", *(["lib64"] if arch == "amd64" else [])]
    for name in names:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in ("info", "updates", "triggers", "alternatives"):
        (root / "var/lib/dpkg" / name).mkdir(parents=True, exist_ok=True)
    for name in ("status", "available"):
        (root / "var/lib/dpkg" / name).touch()
    (root / "dev").mkdir()
    os.mknod(root / "dev/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (root / "dev/null").chmod(0o666)


def _extract(deb: Path, root: Path) -> None:
    """Lay a package's files down, so that the first maintainer scripts find a shell."""
    with process.stream(["dpkg-deb", "--fsys-tarfile", deb], stderr=None) as archive:
        unpack = ["tar", "-C", str(root), "-xf", "-", "--keep-directory-symlink",
                  "--skip-old-files"]
        with process.stream(unpack, stdin=archive.stdout) as tar:
            said = tar.stdout.read() if tar.stdout else b""
            if tar.wait() != 0 or archive.wait() != 0:
                raise EngineError(f"a package cannot be unpacked: {said.decode(errors='replace')}",
                                  where=str(deb), next_step="is the disk full?")


def _check_runs(root: Path, arch: str) -> None:
    """Raise EngineError unless programs of the target run here."""
    if process.run(["chroot", root, "/bin/true"], check=False).returncode != 0:
        raise EngineError(f"this machine cannot run {arch} programs", where=f"base for {arch}",
                          next_step="run `nox -s engine` for emulation")


@contextmanager
def _stubbed(script: Path) -> Iterator[None]:
    """Put a program that does nothing in a script's place for a while."""
    kept = script.with_name(script.name + ".sparkyard")
    script.rename(kept)
    script.symlink_to("/bin/true")
    try:
        yield
    finally:
        script.unlink()
        kept.rename(script)


def _all_installed(root: Path) -> None:
    """Raise EngineError when dpkg left a package half-way; forced runs may still end well."""
    text = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    states = {line for line in text.splitlines() if line.startswith("Status: ")}
    if states != {"Status: install ok installed"}:
        raise EngineError(f"packages were left half-way: {', '.join(sorted(states))}",
                          where="dpkg's status", next_step="run it with -v and see which")
