"""Our push beside the engine's: ``python -m benchmarks.push [CELL] [--pull] [--registry PROGRAM]``.

CELL (default ``cpu``, built before) goes to a fresh registry of Debian's each time, on this
machine's disk, in one run: by the engine, by ``push --direct`` with nothing compressed yet, once
more with everything in the registry, and ``--runs`` times with everything compressed. Beside each
of those stands the time to write the compressed bytes to the same disk and flush them, and what a
client costs that does nothing but send them: ``curl -T``, four at once. The registry's time on the
processor is that of the whole program; other work on the machine changes it less than the seconds.
With ``--pull`` the engine then pulls the image with zstd and with gzip; nothing of the first pull
is left for the second. Pushes of the engine need the image under the registry's name, which is
removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from builder.workspace import cache_folder, open_workspace

ROOT = Path(__file__).parents[1]
PROGRAM = "services/registry-program/usr/bin/docker-registry"


@dataclass
class Registry:
    """A registry that runs: its address, and once it has ended, its seconds on the processor."""

    host: str
    busy: float = 0.0


def registry_program() -> str:
    """Return the registry's program of this machine."""
    return shutil.which("docker-registry") or str(cache_folder(make=False) / PROGRAM)


@contextmanager
def registry(folder: Path, program: str) -> Iterator[Registry]:
    """Run a fresh registry; its data is removed afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{probe.getsockname()[1]}"
    data, config = folder / "registry", folder / "registry.yml"
    config.write_text(f"version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n"
                      f"    rootdirectory: {data}\nhttp:\n  addr: {host}\n", encoding="utf-8")
    with subprocess.Popen([program, "serve", str(config)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as child:
        try:
            while True:
                try:
                    requests.get(f"http://{host}/v2/", timeout=5)
                    break
                except requests.ConnectionError:
                    time.sleep(0.1)
            yield (running := Registry(host))
            child.terminate()
            _, child.returncode, used = os.wait4(child.pid, 0)
            running.busy = used.ru_utime + used.ru_stime
        finally:
            child.kill()
            child.wait()
            shutil.rmtree(data, ignore_errors=True)


@contextmanager
def names_at(host: str, cell: str) -> Iterator[str]:
    """Give the cell's image its names at ``host``; yields the immutable one."""
    space = open_workspace(ROOT / "matrix.toml", make_cache=False).registry
    image = next(one.image for one in open_workspace(ROOT / "matrix.toml").cells if one.id == cell)
    said = subprocess.run(["docker", "image", "inspect", f"{space}/{image}:{cell}"], check=True,
                          capture_output=True, text=True).stdout
    tags = [tag for tag in json.loads(said)[0]["RepoTags"] if tag.startswith(f"{space}/")]
    names = {tag: f"{host}/sparkyard/{tag.rpartition('/')[2]}" for tag in tags}
    for tag, name in names.items():
        subprocess.run(["docker", "tag", tag, name], check=True)
    try:
        yield next(name for name in names.values() if not name.endswith(f":{cell}"))
    finally:
        subprocess.run(["docker", "rmi", *names.values()], check=True, capture_output=True)


def direct(host: str, cell: str, cache: Path, method: str = "zstd") -> dict[str, Any]:
    """Push with ``--direct``; return its own figures and the seconds of the whole command."""
    started = time.perf_counter()
    said = subprocess.run(
        [sys.executable, "-m", "builder", "push", cell, "--direct", "--json",
         "--compression", method], cwd=ROOT, check=True, capture_output=True, text=True,
        env={**os.environ, "SPARKYARD_CACHE": str(cache),
             "SPARKYARD_REGISTRY": f"{host}/sparkyard"}).stdout
    return {**json.loads(said)[0], "wall": time.perf_counter() - started}


def written(folder: Path, files: list[Path]) -> float:
    """Return the seconds that writing and flushing copies of the files takes."""
    started = time.perf_counter()
    for number, path in enumerate(files):
        with path.open("rb") as source, (folder / f"copy-{number}").open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
            os.fsync(target.fileno())
    return time.perf_counter() - started


def uploaded(host: str, files: list[Path]) -> float:
    """Return the seconds that curl takes to bring the files into the registry, four at once."""
    def send(path: Path) -> None:
        asked = requests.post(f"http://{host}/v2/curl/blobs/uploads/", timeout=60)
        place = asked.headers["Location"]
        joint = "&" if "?" in place else "?"
        said = subprocess.run(
            ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Expect:", "-H",
             "Content-Type: application/octet-stream", "-T", str(path),
             f"{place}{joint}digest=sha256:{path.stem}"], check=True, capture_output=True)
        if said.stdout != b"201":
            raise RuntimeError(f"the registry answered curl with {said.stdout!r}")

    started = time.perf_counter()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send, files))
    return time.perf_counter() - started


def pulled(cell: str, cache: Path, folder: Path, method: str, program: str) -> str:
    """Push with this compression, let the engine pull it, and say bytes and seconds."""
    with registry(folder, program) as there_is:
        with names_at(there_is.host, cell):
            there = direct(there_is.host, cell, cache, method)
        name = f"{there['reference'].rpartition(':')[0]}@{there['digest']}"
        started = time.perf_counter()
        subprocess.run(["docker", "pull", "--quiet", name], check=True, capture_output=True)
        seconds = time.perf_counter() - started
        subprocess.run(["docker", "rmi", name], check=True, capture_output=True)
    return f"pull with {method}: {there['size'] / 1e6:.0f} MB in {seconds:.1f} s"


def linked_cache(cache: Path, own: Path) -> None:
    """Make a cache with the layers of another, hashed before, and nothing compressed."""
    own.mkdir()
    (own / ".sparkyard-cache").touch()
    for name in ("layers", "stamps"):
        # Links, not hard ones: those change the times by which the store knows its files.
        shutil.copytree(cache / name, own / name, copy_function=os.symlink)


@dataclass(frozen=True)
class Warm:
    """One push of what is compressed already, and the same bytes by curl and onto the disk."""

    pushed: dict[str, Any]
    busy: float
    curl: float
    disk: float

    def __str__(self) -> str:
        """Return the seconds, and their ratios to the disk's."""
        wall, transfer = self.pushed["wall"], self.pushed["seconds"]
        return (f"--direct {wall:.1f} s ({wall / self.disk:.2f}), of which the transfer "
                f"{transfer:.1f} s ({transfer / self.disk:.2f}); curl -T {self.curl:.1f} s "
                f"({self.curl / self.disk:.2f}); writing the same bytes {self.disk:.1f} s; the "
                f"registry {self.busy:.1f} s of the processor; load {os.getloadavg()[0]:.1f}")


def warm_push(cell: str, own: Path, folder: Path, program: str) -> Warm:
    """Push from a warm store to a fresh registry, and measure what bounds it, one by one."""
    files = sorted((own / "compressed").glob("*.zst"), key=lambda path: -path.stat().st_size)
    os.sync()
    with registry(folder, program) as one, names_at(one.host, cell):
        pushed = direct(one.host, cell, own)
    os.sync()
    with registry(folder, program) as two:
        curl = uploaded(two.host, files)
    os.sync()
    (folder / "copies").mkdir()
    disk = written(folder / "copies", files)
    shutil.rmtree(folder / "copies")
    return Warm(pushed, one.busy, curl, disk)


def main() -> None:
    """Print the seconds and the ratios that the bars are about."""
    parser = argparse.ArgumentParser(description="Our push beside the engine's.")
    parser.add_argument("cell", nargs="?", default="cpu", metavar="CELL")
    parser.add_argument("--pull", action="store_true", help="also pull, with zstd and with gzip")
    parser.add_argument("--registry", default=registry_program(), metavar="PROGRAM",
                        help="the registry's program (default: that of this machine)")
    parser.add_argument("--without-engine", action="store_true", help="not the engine's push")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="warm pushes (default: 3)")
    options = parser.parse_args()
    cell, cache, program = options.cell, cache_folder(), options.registry
    with tempfile.TemporaryDirectory(dir=cache.parent) as name:
        folder, own = Path(name), Path(name, "cache")
        linked_cache(cache, own)
        engine = 0.0 if options.without_engine else engines_push(cell, folder, program)
        with registry(folder, program) as there, names_at(there.host, cell):
            cold = direct(there.host, cell, own)
            nothing = direct(there.host, cell, own)
        _print(cell, engine, cold, nothing)
        runs = [warm_push(cell, own, folder, program) for _ in range(options.runs)]
        _print_warm(runs)
        for method in ("zstd", "gzip") if options.pull else ():
            print(pulled(cell, own, folder, method, program), flush=True)


def engines_push(cell: str, folder: Path, program: str) -> float:
    """Return the seconds of the engine's own push."""
    with registry(folder, program) as there, names_at(there.host, cell) as tag:
        started = time.perf_counter()
        subprocess.run(["docker", "push", "--quiet", tag], check=True, capture_output=True)
        return time.perf_counter() - started


def _print(cell: str, engine: float, cold: dict[str, Any], nothing: dict[str, Any]) -> None:
    print(f"{cell}: {cold['sent'] / 1e6:.0f} MB with zstd; load {os.getloadavg()[0]:.1f} on "
          f"{os.cpu_count()} cores; {cold['digest']}")
    print(f"the engine's push {engine:.1f} s; --direct, nothing compressed before "
          f"{cold['wall']:.1f} s; ratio {engine / cold['wall']:.1f} (bar: 3)")
    print(f"--direct, all there {nothing['wall']:.1f} s, {nothing['sent']:.0f} bytes sent",
          flush=True)


def _print_warm(runs: list[Warm]) -> None:
    print("all compressed before; in brackets the ratio to writing the same bytes (bar: 1.3):")
    for run in runs:
        print(f"  {run}", flush=True)
    same = {run.pushed["digest"] for run in runs}
    print(f"{len(runs)} pushes, {len(same)} manifest digest", flush=True)


if __name__ == "__main__":
    main()
