"""A Python program that Sparkyard runs beside itself, installed once from a lock with hashes.

It gets a virtual environment of its own in the cache folder, named by the lock's sha256, so that
its dependencies never mix with Sparkyard's. ``uv`` refuses any file whose hash the lock does not
name. The folder appears in one step, at the end: what a killed run left is made again.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import uv

from builder import console
from builder.errors import NetworkError
from builder.indexes.settings import user_sources
from builder.locking.uv import user_environment
from builder.process import CommandError, run
from builder.store.content_store import Store


def tool_python(lock: Path, cache: Path) -> Path:
    """Return the Python that has everything in ``lock``; installs it first where it is missing.

    Raises NetworkError when the files cannot be had or are not the locked ones.
    """
    text = lock.read_bytes()
    digest = hashlib.sha256(text + sys.version.encode()).hexdigest()[:16]
    home = cache / "tools" / f"{lock.stem}-{digest}"
    python = home / "bin" / "python"
    if not python.exists():
        console.info(f"installing {lock.stem} from its lock, {text.count(b'==')} packages")
        with Store(cache).temporary(lock.stem) as scratch:
            _install(lock, scratch)
            home.parent.mkdir(parents=True, exist_ok=True)
            if not home.exists():  # another run may have been faster
                scratch.rename(home)
    return python


def _install(lock: Path, home: Path) -> None:
    environment = user_environment(user_sources())
    try:
        run([uv.find_uv_bin(), "venv", "--no-config", "--no-project", "--relocatable",
             "--python", sys.executable, home], env=environment)
        run([uv.find_uv_bin(), "pip", "install", "--no-config", "--python", home / "bin" / "python",
             "--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-progress",
             "--requirement", lock], env=environment)
    except CommandError as error:
        raise NetworkError(f"{lock.stem} could not be installed\n{error.what}", where=lock.name,
                           next_step="an index that has these very files must be reachable"
                           ) from error
