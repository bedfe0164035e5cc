"""A Debian archive made of real packages, served on this machine, which can drop and renew them.

``/debian`` and ``/debian-security`` are what a mirror has today; ``/archive/debian/<time>`` is a
snapshot service. apt reads both as it reads Debian's own.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from builder.locking.base_lock import LockedDeb

SUITES = ("debian/dists/bookworm", "debian/dists/bookworm-updates",
          "debian-security/dists/bookworm-security")
ARCH = "amd64"
TRICKLE_S = 0.2


@dataclass
class Archive:
    """What is published: packages by their path. ``snapshot`` says how the service behaves."""

    folder: Path
    today: dict[str, Path] = field(default_factory=dict)
    kept: dict[str, Path] = field(default_factory=dict)  # what the snapshot service has
    snapshot: str = "good"  # good, missing, garbage or slow
    address: str = ""

    def publish(self, debs: Sequence[tuple[LockedDeb, Path]]) -> None:
        """Make a mirror of these packages, and a snapshot of it."""
        for deb, path in debs:
            root = "debian-security" if deb.path.startswith("pool/updates/") else "debian"
            self.today[f"{root}/{unquote(deb.path)}"] = path
        self.kept.update(self.today)
        self._write_lists()

    def add_empty(self, name: str, version: str) -> None:
        """Publish a package without files: what a base must name, and this test does not run."""
        tree = self.folder / f"{name}-tree"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: {ARCH}\n"
            "Maintainer: nobody <nobody@localhost>\nDescription: an empty package\n")
        deb = self.folder / f"{name}_{version}_{ARCH}.deb"
        subprocess.run(["dpkg-deb", "-Znone", "-b", tree, deb], check=True, capture_output=True)
        shutil.rmtree(tree)
        self.today[f"debian/pool/main/{name}/{deb.name}"] = deb

    def renew(self, name: str, version: str) -> None:
        """Put a new version of a package in the place of the old one, which the mirror drops."""
        old = next(path for path in self.today if f"/{name}_" in path)
        tree = self.folder / f"{name}-{version}"
        subprocess.run(["dpkg-deb", "-R", self.today.pop(old), tree], check=True)
        control = tree / "DEBIAN/control"
        control.write_text("".join(
            f"Version: {version}\n" if line.startswith("Version:") else line
            for line in control.read_text().splitlines(keepends=True)))
        deb = self.folder / f"{name}_{version}_{ARCH}.deb"
        subprocess.run(["dpkg-deb", "-Znone", "-b", tree, deb], check=True, capture_output=True)
        shutil.rmtree(tree)
        self.today[f"{old.rpartition('/')[0]}/{deb.name}"] = deb
        self._write_lists()

    def _write_lists(self) -> None:
        """Write what apt reads: Packages, with the control fields of each, and Release."""
        for suite in SUITES:
            root = suite.partition("/")[0]
            mine = [] if suite.endswith("-updates") else [
                (path, file) for path, file in self.today.items() if path.startswith(f"{root}/")]
            stanzas = [_stanza(path.partition("/")[2], file) for path, file in mine]
            listed = "\n".join(stanzas).encode()
            name = f"main/binary-{ARCH}/Packages"
            target = self.folder / suite / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(listed)
            (self.folder / suite / "Release").write_text(
                f"Suite: {suite.rpartition('/')[2]}\nCodename: {suite.rpartition('/')[2]}\n"
                f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S UTC', time.gmtime())}\n"
                f"Architectures: {ARCH}\nComponents: main\nSHA256:\n"
                f" {hashlib.sha256(listed).hexdigest()} {len(listed)} {name}\n")

    def file(self, path: str) -> Path | None:
        """Return what stands at a path; None where nothing does."""
        parts = path.strip("/").split("/")
        if parts[0] == "archive":
            return self.kept.get("/".join([parts[1], *parts[3:]]))
        found = self.today.get("/".join(parts))
        listed = self.folder / "/".join(parts)
        return found or (listed if listed.is_file() else None)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the archive for the length of the block."""
        with ThreadingHTTPServer(("127.0.0.1", 0), _handler(self)) as server:
            self.address = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()


def _stanza(path: str, file: Path) -> str:
    control = subprocess.run(["dpkg-deb", "-f", file], check=True, capture_output=True, text=True)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return (f"{control.stdout.strip()}\nFilename: {path}\nSize: {file.stat().st_size}\n"
            f"SHA256: {digest}\n")


def _handler(archive: Archive) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            path = unquote(self.path)
            past = path.startswith("/archive/")
            file = archive.file(path)
            if file is None or (past and archive.snapshot == "missing"):
                self.send_error(404)
            elif past and archive.snapshot != "good":
                self.misbehave()
            else:
                data = file.read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def misbehave(self) -> None:
            self.send_response(200)
            if archive.snapshot == "slow":  # without a length, apt takes what came at once
                self.send_header("Content-Length", "1000000")
            self.end_headers()
            if archive.snapshot == "garbage":
                self.wfile.write(b"<html>log in first</html>" * 100)
                return
            try:
                while archive.snapshot == "slow":
                    self.wfile.write(b"x")
                    time.sleep(TRICKLE_S)
            except OSError:
                return

    return Handler
