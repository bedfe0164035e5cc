"""Load every extension with all its symbols bound, each in a process of its own.

CUDA ones load beside a stub of the driver's libraries, compiled here for this check: the real ones
come from the host. ``torch`` is imported first, because vLLM's extensions have no search path of
their own and live off the libraries that it has loaded.
"""

from __future__ import annotations

import ctypes
import fnmatch
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from elf import undefined_symbols
from results import check, say, spec

EXTENSION = re.compile(r"\.(cpython-\d+[a-z]*-[a-z0-9_-]+|abi3)\.so$")
DRIVER = re.compile(r"cu[A-Z]\w*$")
MANAGEMENT = re.compile(r"nvml[A-Z]\w*$")
STUBS = Path("/tmp/sparkyard-stubs")  # noqa: S108 - the container's own
TIMEOUT_S = 300


def main() -> None:
    """Compile the stubs and start again beside them; there, load everything."""
    site = Path(sysconfig.get_paths()["purelib"])
    if spec()["cuda"] and not STUBS.exists():
        with check("driver stub for the loader") as detail:
            detail.append(f"{make_stubs(site)} symbols")
        beside = {**os.environ, "LD_LIBRARY_PATH": str(STUBS), "LD_BIND_NOW": "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], beside)  # noqa: S606 - itself
    if os.environ.get("LD_BIND_NOW") != "1":
        os.execve(sys.executable, [sys.executable, *sys.argv],  # noqa: S606 - itself
                  {**os.environ, "LD_BIND_NOW": "1"})
    with check("every extension loads, all symbols bound") as detail:
        detail.append(load_all(site))


def make_stubs(site: Path) -> int:
    """Compile stand-ins that define every driver symbol that a file of the closure expects."""
    wanted: set[str] = set()
    for path in site.rglob("*.so*"):
        if path.is_file() and not path.is_symlink():
            wanted.update(name for name in undefined_symbols(path)
                          if (DRIVER.match(name) and not name.startswith("cuFile"))
                          or MANAGEMENT.match(name))
    STUBS.mkdir()
    for soname, pattern in (("libcuda.so.1", DRIVER), ("libnvidia-ml.so.1", MANAGEMENT)):
        names = sorted(name for name in wanted if pattern.match(name))
        source = STUBS / f"{soname}.c"
        # 100 is CUDA_ERROR_NO_DEVICE: whoever asks learns that there is no GPU.
        source.write_text("".join(f"int {name}(void) {{ return 100; }}\n" for name in names)
                          or "int sparkyard_empty;\n")
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{soname}",
                        "-o", str(STUBS / soname), str(source)], check=True)
    return len(wanted)


def load_all(site: Path) -> str:
    """Load each extension in a fork of this process; raise Wrong with all that do not load."""
    import torch  # noqa: F401 - loads the libraries that others live off
    from results import Wrong

    policy, operators = spec()["extensions"], spec().get("operators", [])
    wrong, excused, good = [], 0, 0
    for path in sorted(site.rglob("*.so")):
        name = str(path.relative_to(site))
        if not (EXTENSION.search(name) or name in operators):
            continue
        reason = load(path)
        rule = next((rule for rule in policy if fnmatch.fnmatchcase(name, rule["pattern"])), None)
        if reason is None:
            good += 1
        elif rule:
            excused += 1
            say(f"extension {name}", "not applicable", f"{rule['reason']} ({reason})")
        else:
            say(f"extension {name}", "fail", reason)
            wrong.append(f"{name}: {reason}")
    if wrong:
        raise Wrong(f"{len(wrong)} of {good + len(wrong)}: " + "; ".join(wrong[:10]))
    return f"{good} load" + (f", {excused} never used here" if excused else "")


def load(path: Path) -> str | None:
    """Return why ``path`` does not load, None where it does; a crash is an answer too."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            ctypes.CDLL(str(path), mode=os.RTLD_NOW)
            os.write(writer, b"ok")
        except OSError as error:
            os.write(writer, str(error).encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    return None if said == "ok" else said or f"the loader's process ended with status {status}"


if __name__ == "__main__":
    main()
