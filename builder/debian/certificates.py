"""The certificate bundle of a root file system, as Debian's ``update-ca-certificates`` makes it.

``/etc/ssl/certs/ca-certificates.crt`` holds every certificate that ``/etc/ca-certificates.conf``
names; beside it lie a link by name and a link by subject hash to each.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from builder import process

STORE = "usr/share/ca-certificates"
CERTS = "etc/ssl/certs"


def install_bundle(root: Path) -> None:
    """Write bundle and links under ``root``; the host's openssl computes the hashes."""
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
            link.unlink(missing_ok=True)
            link.symlink_to(f"/{STORE}/{name}")
            shutil.copyfile(source, Path(scratch, link.name))
        process.run(["openssl", "rehash", scratch])
        for hashed in sorted(Path(scratch).iterdir()):
            if hashed.is_symlink():
                link = certs / hashed.name
                link.unlink(missing_ok=True)
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
