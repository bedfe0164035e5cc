"""Exact Debian packages into a root file system: unpacked natively, configured in a chroot.

mmdebstrap and debootstrap run the target's own dpkg under emulation, unpacking included: over
eight minutes for arm64 on two cores. Here this machine's dpkg does the work and only maintainer
scripts are emulated. The certificate bundle is also made from outside, as Debian's
``update-ca-certificates`` makes it: that script starts a thousand small programs.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from builder import process
from builder.errors import EngineError, UsageError, command
from builder.files import open_mark
from builder.limits import PROGRAM_S
from builder.process import CommandError
from builder.removal import remove_file, remove_tree
from builder.text import visible

STORE = "usr/share/ca-certificates"
CERTS = "etc/ssl/certs"
CERTIFICATE_SCRIPT = "usr/sbin/update-ca-certificates"
OUTPUT_BYTES = 64_000  # of a program that fails
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
        raise UsageError("making a base needs root: files in it belong to several users",
                         where=f"base for {arch}", next_step="run the same command with sudo -E, "
                         "or set SPARKYARD_REGISTRY to a registry that has the base")
    parent = cache / "rootfs"
    parent.mkdir(parents=True, exist_ok=True)
    with open_mark(parent / f".{arch}.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = parent / arch
        remove_tree(folder, cache)
        folder.mkdir(mode=0o755)
        try:
            yield folder
        finally:
            remove_tree(folder, cache)


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
                          next_step="see the package above; if its script cannot run, set up "
                                    f"emulation: {command('engine')}") from error
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
            printed = tar.stdout.read(OUTPUT_BYTES) if tar.stdout else b""
            if tar.wait() != 0 or archive.wait() != 0:
                reason = visible(printed.decode(errors="replace").strip())
                raise EngineError(f"a Debian package cannot be unpacked: {reason}",
                                  where=str(deb), next_step="check that the disk is not full, and "
                                  "run the same command again")


def _check_runs(root: Path, arch: str) -> None:
    """Raise EngineError unless programs of the target run here."""
    if process.run(["chroot", root, "/bin/true"], check=False,
                   timeout=PROGRAM_S).returncode != 0:
        raise EngineError(f"this machine cannot run {arch} programs", where=f"base for {arch}",
                          next_step=f"set up emulation: {command('engine')}")


@contextmanager
def _stubbed(script: Path) -> Iterator[None]:
    """Put a program that does nothing in a script's place for a while."""
    kept = script.with_name(script.name + ".sparkyard")
    script.rename(kept)
    script.symlink_to("/bin/true")
    try:
        yield
    finally:
        remove_file(script, script.parent)
        kept.rename(script)


def _all_installed(root: Path) -> None:
    """Raise EngineError when dpkg left a package half-way; forced runs may still end well."""
    text = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    packages = re.findall(r"^Package: (\S+)\nStatus: (.*)$", text, re.MULTILINE)
    wrong = [f"{name} ({state})" for name, state in packages if state != "install ok installed"]
    if wrong or not packages:
        raise EngineError(f"dpkg left packages half installed: {', '.join(wrong) or 'all'}",
                          where="var/lib/dpkg/status of the base",
                          next_step=f"run the same command again; if it stays so, lock today's "
                                    f"packages: {command('base', '--upgrade')}")


def install_bundle(root: Path) -> None:
    """Write certificate bundle and links under ``root``; the host's openssl computes the hashes.

    ``ca-certificates.crt`` holds every certificate that ``/etc/ca-certificates.conf`` names;
    beside it lie a link by name and a link by subject hash to each.
    """
    certs = root / CERTS
    certs.mkdir(parents=True, exist_ok=True)
    chosen = trusted_names((root / "etc/ca-certificates.conf").read_text(encoding="utf-8"))
    bundle = b""
    with tempfile.TemporaryDirectory(prefix="sparkyard-certs-") as scratch:
        for name in chosen:
            source = root / STORE / name
            data = source.read_bytes()
            bundle += data if data.endswith(b"\n") else data + b"\n"
            link = certs / link_name(name)
            remove_file(link, certs)
            link.symlink_to(f"/{STORE}/{name}")
            shutil.copyfile(source, Path(scratch, link.name))
        process.run(["openssl", "rehash", scratch], timeout=PROGRAM_S)
        for hashed in sorted(Path(scratch).iterdir()):
            if hashed.is_symlink():
                link = certs / hashed.name
                remove_file(link, certs)
                link.symlink_to(hashed.readlink())
    (certs / "ca-certificates.crt").write_bytes(bundle)
    (certs / "ca-certificates.crt").chmod(0o644)


def trusted_names(configuration: str) -> list[str]:
    """Return the certificates that the configuration names; ``!`` and ``#`` leave one out."""
    lines = (line.strip() for line in configuration.splitlines())
    return [line for line in lines if line and line[0] not in "#!"]


def link_name(name: str) -> str:
    """Return the name of the link to ``mozilla/Some_CA.crt``: ``Some_CA.pem``."""
    stem = name.rsplit("/", 1)[-1].removesuffix(".crt")
    for char, plain in ((" ", "_"), ("(", "="), (")", "="), (",", "_")):
        stem = stem.replace(char, plain)
    return stem + ".pem"
