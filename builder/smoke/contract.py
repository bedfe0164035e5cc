"""Part of level 1a: the image works for a launcher that runs it as an unprivileged user.

Three launches, none of which has a network: a command handed to the image; the options of sparkrun;
and those with a read-only root file system, where only ``contract.TMPFS`` can be written to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builder import labels as label
from builder.engine.client import RunSpec
from builder.errors import EngineError
from builder.layers import contract
from builder.limits import SCRIPT_S
from builder.record.check import Check, OnCheck, Status
from builder.smoke.container_end import running
from builder.smoke.levels import ENVIRONMENT, FOLDER, HERE, run_scripts
from builder.smoke.models import Run
from builder.text import one_line

USER = 12345  # in no /etc/passwd
TMPFS = tuple(f"{folder}:exec,mode=1777" for folder in ("/tmp", "/cache", contract.WORKSPACE))  # noqa: S108
COMMAND = ("bash", "-c", "id -u | awk '{ print \"user\", $1 }'")
COMMAND_CHECK = "any user: the image runs the command that it is given"
TOOLS = ("bash", "awk", "cat", "id", "mkdir", "sleep")
SCRIPTS = ("contract.py", "caches.py", "results.py")
UNPACK = ("import json, pathlib, sys\n"
          "folder = pathlib.Path(sys.argv[1])\n"
          "folder.mkdir(exist_ok=True)\n"
          "for name, text in json.load(sys.stdin).items():\n"
          "    (folder / name).write_text(text)\n")


@dataclass(frozen=True)
class Launch:
    """One way to run the image: its name in the checks, and what the script looks at."""

    name: str
    read_only: bool
    looks: tuple[str, ...]


LAUNCHES = (
    Launch("any user", read_only=False, looks=("user", "tools", "python", "folders", "nccl")),
    Launch("read-only root", read_only=True, looks=("folders", "imports", "caches", "launcher")),
)


def check_contract(run: Run, log: list[str], on_check: OnCheck) -> list[Check]:
    """Launch the image in each way and return what was seen; each check is handed on as it comes.

    Raises EngineError where the engine or a container was stopped from outside.
    """
    first = command_check(run)
    on_check(first)
    checks = [first]
    for launch in LAUNCHES:
        checks += _look(run, launch, log, on_check)
    return checks


def command_check(run: Run) -> Check:
    """Hand a command to the image as ``docker run`` does; it must be run, and nothing else."""
    def result(status: Status, detail: str) -> Check:
        return Check(check=COMMAND_CHECK, status=status, detail=detail)

    if run.image.entrypoint:
        return result(Status.FAIL, f"the image has an entrypoint ({' '.join(run.image.entrypoint)}"
                                   "), which gets every command as its arguments")
    spec = replace(launch_spec(run), command=COMMAND, entrypoint=None)
    try:
        done = run.engine.run_once(spec, timeout=SCRIPT_S)
    except EngineError as error:  # the same engine has run this image before: level 1a goes first
        return result(Status.FAIL, one_line(error.what, 500))
    if done.returncode or done.stdout.strip() != f"user {USER}":
        said = one_line(done.stderr or done.stdout, 500) or "nothing"
        return result(Status.FAIL, f"status {done.returncode}, and it printed {said}")
    return result(Status.PASS, f"bash, id and awk, as user {USER}")


def launch_spec(run: Run, *, read_only: bool = False) -> RunSpec:
    """Return the launch as a value: sparkrun's options, but for those of the host.

    These are its network, devices, caches and names of users, limits that not every engine can
    raise, and what only widens rights: a capability to trace and a seccomp profile for it.
    """
    return RunSpec(
        run.reference, ("sleep", "infinity"), platform=run.cell.platform,
        env={**ENVIRONMENT, "HOME": "/tmp"},  # noqa: S108 - in the container
        entrypoint="", network="none", user=f"{USER}:{USER}", shm_size="32g", ipc="shareable",
        no_new_privileges=True, read_only=read_only,
        tmpfs=TMPFS if read_only else ())


def script_input(image_labels: Mapping[str, str], launch: Launch) -> dict[str, Any]:
    """Return what the script reads from ``spec.json``."""
    return {"launch": launch.name, "looks": launch.looks, "tools": TOOLS,
            "folders": (*contract.WRITABLE, "/tmp"),  # noqa: S108 - in the container
            "workspace": contract.WORKSPACE, "imports": ("torch", "vllm"),
            "nccl": image_labels.get(label.NCCL, "")}


def _look(run: Run, launch: Launch, log: list[str], on_check: OnCheck) -> Sequence[Check]:
    spec = launch_spec(run, read_only=launch.read_only)
    files = {name: Path(HERE, "inside", name).read_text(encoding="utf-8") for name in SCRIPTS}
    files["spec.json"] = json.dumps(script_input(run.image.labels, launch))
    with running(run.engine, spec) as (box, events):
        # Not `docker cp`: it refuses a container whose root file system is read-only.
        done = box.exec(["python3", "-c", UNPACK, FOLDER], stdin=json.dumps(files).encode())
        if done.returncode == 0:
            return run_scripts(box, events, SCRIPTS[:1], log, on_check)
    failed = Check(check=f"{launch.name}: python3 writes to /tmp", status=Status.FAIL,
                   detail=one_line(done.stderr or done.stdout, 500))
    on_check(failed)
    return [failed]
