"""What a launcher relies on, seen by an unprivileged user in the image."""

from __future__ import annotations

import getpass
import hashlib
import importlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from caches import caches, launcher
from results import Wrong, check, spec

PREFIX = "/opt/sparkyard"
VIRTUAL = ("/proc", "/sys", "/dev")  # of the kernel, not of the image
NCCL_NAME = "libnccl.so"
PRINT_PREFIX = "import sys; print(sys.prefix)"
CHUNK_BYTES = 1 << 20


def main() -> None:
    """Look at what the task asks for, in its order."""
    task = spec()
    for name in task["looks"]:
        title, look = LOOKS[name]
        with check(f"{task['launch']}: {title}") as detail:
            detail.append(look(task))


def user(environment: Mapping[str, str]) -> str:
    """Return who this is; raise Wrong for a user without a name, or variables that name /root."""
    wrong = [f"{key}={value}" for key, value in sorted(environment.items())
             if any(Path(part).is_relative_to("/root") for part in value.split(":"))]
    try:
        name = getpass.getuser()
    except (KeyError, OSError) as error:
        raise Wrong(f"the user has no name, which PyTorch's compiler needs: {error}") from error
    if wrong:
        raise Wrong(f"only root can use {', '.join(wrong)}")
    return f"{os.getuid()} ({name}), home {Path.home()}"


def tools(names: Sequence[str]) -> str:
    """Return the commands that launchers use; raise Wrong for those that are not on PATH."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        raise Wrong(f"not on PATH: {', '.join(missing)}")
    return ", ".join(names)


def python(names: Sequence[str], prefix: str = PREFIX) -> str:
    """Return where ``python3`` leads; raise Wrong unless that is the environment with the stack."""
    path = shutil.which("python3")
    if path is None:
        raise Wrong("there is no python3 on PATH")
    done = subprocess.run([path, "-c", PRINT_PREFIX], capture_output=True, text=True, check=False)
    if done.stdout.strip() != prefix:
        raise Wrong(f"{path} is of {done.stdout.strip() or done.stderr.strip()[-300:]}, "
                    f"not of {prefix}")
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise Wrong(f"{path} has no {', '.join(missing)}")
    return path


def folders(paths: Sequence[str], workspace: str) -> str:
    """Write a file to each folder; raise Wrong for those that refuse, or another working folder."""
    wrong = []
    if Path.cwd() != Path(workspace):
        wrong.append(f"the working folder is {Path.cwd()}, not {workspace}")
    for path in paths:
        file = Path(path, f".sparkyard-{os.getpid()}")
        try:
            Path(path).mkdir(exist_ok=True)  # below a tmpfs of the launch there is nothing yet
            file.write_bytes(b"x")
            file.unlink()
        except OSError as error:
            wrong.append(f"{path}: {error.strerror}")
    if wrong:
        raise Wrong("; ".join(wrong))
    return ", ".join(paths)


def imports(names: Sequence[str]) -> str:
    """Return the versions of the packages, imported here."""
    return ", ".join(f"{name} {getattr(importlib.import_module(name), '__version__', '')}".strip()
                     for name in names)


def nccl(labelled: str, root: Path = Path("/")) -> str:
    """Return the one NCCL library; raise Wrong for several, or one that the label does not name."""
    found: dict[str, list[str]] = {}
    for path in libraries(root):
        found.setdefault(sha256(path), []).append(str(path))
    told = "; ".join(f"{' and '.join(paths)} ({digest[:12]})" for digest, paths in found.items())
    if len(found) > 1:
        raise Wrong(f"{len(found)} different NCCL libraries: {told}")
    if set(found) != set(labelled.split(",")) - {""}:
        raise Wrong(f"the label names {labelled or 'none'}, the image has {told or 'none'}")
    return told or "the image has none, and names none"


def libraries(root: Path) -> Iterator[Path]:
    """Yield every NCCL library of the file system, links left out."""
    for folder, below, files in os.walk(root):
        if folder in VIRTUAL:
            below.clear()
            continue
        for name in files:
            path = Path(folder, name)
            if (name == NCCL_NAME or name.startswith(f"{NCCL_NAME}.")) and not path.is_symlink():
                yield path


def sha256(path: Path) -> str:
    """Return the digest of a file."""
    state = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            state.update(chunk)
    return state.hexdigest()


LOOKS: Mapping[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "user": ("a name, a home and nothing of root's", lambda _task: user(os.environ)),
    "tools": ("the commands of launchers", lambda task: tools(task["tools"])),
    "python": ("python3 is the one with torch and vLLM", lambda task: python(task["imports"])),
    "folders": ("the folders are writable",
                lambda task: folders(task["folders"], task["workspace"])),
    "nccl": ("one NCCL, as labelled", lambda task: nccl(task["nccl"])),
    "imports": ("torch and vLLM import", lambda task: imports(task["imports"])),
    "caches": ("the compilers write into their caches", lambda _task: caches()),
    "launcher": ("Triton's launcher links with the driver's library", lambda _task: launcher()),
}

if __name__ == "__main__":
    main()
